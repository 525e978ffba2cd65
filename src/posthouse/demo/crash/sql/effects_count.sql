-- Effects by commit time: how many, how many different ones, and the longest time without a commit.
select count(*), count(distinct number), coalesce(extract(epoch from max(pause)), 0)::float8
from (
  select number, committed - lag(committed) over (order by committed) as pause
  from (select number, pg_xact_commit_timestamp(xmin) as committed from crash_effects) as effects
) as pauses;
