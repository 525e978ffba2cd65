-- Bulk changes, newest first; the one with this id, if one is given; only retries, if these are asked for.
select
  id, action, state, chosen, rate, stop_share, stop_after, total, retried, canceled, skipped, succeeded, failed,
  created_at, created_by, starts_at, ended_at, reason
from posthouse.bulk_changes
where (%(id)s::uuid is null or id = %(id)s::uuid)
  and (%(action)s::text is null or action = %(action)s::text)
  and (%(tenant)s::text is null or chosen ->> 'tenant' = %(tenant)s::text)
  and (%(before_at)s::timestamptz is null or (created_at, id) < (%(before_at)s::timestamptz, %(before_id)s::uuid))
order by created_at desc, id desc
limit %(limit)s
