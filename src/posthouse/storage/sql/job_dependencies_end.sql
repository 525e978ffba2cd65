-- When the last of these jobs ended; null: one of them has not, or none is kept any more.
select case when bool_and(finished_at is not null) then max(finished_at) end
from posthouse.jobs where id = any (%(ids)s::uuid[])
