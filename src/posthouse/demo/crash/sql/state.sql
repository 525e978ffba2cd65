-- Effects by commit time, jobs by status and attempts that did not succeed. One statement, so one snapshot: an effect
-- that is committed between two statements would be counted as missing.
with effects as (
  select number, committed - lag(committed) over (order by committed) as pause
  from (select number, pg_xact_commit_timestamp(xmin) as committed from crash_effects) as commits
),
jobs as (
  select status, count(*) as number from posthouse.jobs where kind = 'crash.effect' group by status
)
select
  (select count(*) from effects),
  (select count(distinct number) from effects),
  (select coalesce(extract(epoch from max(pause)), 0)::float8 from effects),
  (select coalesce(jsonb_object_agg(status, number), '{}') from jobs),
  (select count(*) from posthouse.attempts
   where kind = 'crash.effect' and outcome not in ('succeeded', 'running'));
