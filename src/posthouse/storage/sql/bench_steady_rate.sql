-- Jobs a second over the last so many ended jobs, in ten windows one after the other; of these the upper
-- quartile, so that a moment in which the machine was busy with something else does not count.
with ended as (
  select finished_at, ntile(10) over (order by finished_at) as part
  from (select finished_at from posthouse.history order by finished_at desc limit %s) as last
), parts as (
  select part, count(*) as jobs, max(finished_at) as until from ended group by part
), rates as (
  select jobs / extract(epoch from until - lag(until) over (order by part)) as rate
  from parts where jobs > 0
)
select percentile_cont(0.75) within group (order by rate) from rates where rate is not null
