-- The newest migration applied, and the oldest versions of Posthouse that the migrations work with.
select coalesce(max(number), 0) as number, coalesce(array_agg(distinct lowest_code), '{}') as lowest_codes
from posthouse.migrations
