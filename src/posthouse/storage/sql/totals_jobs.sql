-- The counts that only grow. Names go to the tenants that came first, and to the lines (queue and kind) that came first:
-- the others are one, so that there are never more of them. In this order a name, once given, stays.
with tenants as (
  select tenant_id, row_number() over (order by min(first_minute), tenant_id) as nth
  from posthouse.total_jobs group by tenant_id
), lines as (
  select queue, kind, row_number() over (order by min(first_minute), queue, kind) as nth
  from posthouse.total_jobs group by queue, kind
)
select
  case when t.nth <= %(tenants)s then j.tenant_id else 'other' end as tenant_id,
  case when l.nth <= %(lines)s then j.queue else 'other' end as queue,
  case when l.nth <= %(lines)s then j.kind else 'other' end as kind,
  sum(arrivals)::bigint as arrivals, sum(ended)::bigint as ended, sum(succeeded)::bigint as succeeded,
  sum(failed)::bigint as failed, sum(dead_letter)::bigint as dead_letter, sum(failures)::bigint as failures, sum(retries)::bigint as retries,
  sum(rescues)::bigint as rescues
from posthouse.total_jobs as j join tenants as t using (tenant_id) join lines as l using (queue, kind)
group by 1, 2, 3
order by 1, 2, 3
