-- When the last of these jobs finished; null if one has not, or none is stored.
select case when bool_and(finished_at is not null) then max(finished_at) end
from posthouse.jobs where id = any (%(ids)s::uuid[])
