-- Waits and run times, for the lines that have a name: see totals_jobs.sql.
with lines as (
  select queue, kind, row_number() over (order by min(first_minute), queue, kind) as nth
  from posthouse.total_jobs group by queue, kind
)
select
  case when l.nth <= %(lines)s then t.queue else 'other' end as queue,
  case when l.nth <= %(lines)s then t.kind else 'other' end as kind,
  what, octave, sum(attempts)::bigint as attempts, sum(seconds)::double precision as seconds
from posthouse.total_times as t join lines as l using (queue, kind)
group by 1, 2, 3, 4
order by 1, 2, 3, 4
