-- Jobs a second over the first so many jobs that ended after a time; the first tenth of them is warming up.
with ended as (
  select finished_at, row_number() over (order by finished_at) as nth
  from posthouse.history where finished_at > %(since)s order by finished_at limit %(jobs)s
)
select 0.9 * %(jobs)s / extract(epoch from max(finished_at) - max(finished_at) filter (where nth <= 0.1 * %(jobs)s))
from ended
