-- Bulk retries, newest first; the one with this id, if one is given.
select
  id, state, chosen, rate, stop_share, stop_after, total, retried, skipped, succeeded, failed, created_at, created_by,
  ended_at, reason
from posthouse.bulk_retries
where (%(id)s::uuid is null or id = %(id)s::uuid)
  and (%(tenant)s::text is null or chosen ->> 'tenant' = %(tenant)s::text)
  and (%(before_at)s::timestamptz is null or (created_at, id) < (%(before_at)s::timestamptz, %(before_id)s::uuid))
order by created_at desc, id desc
limit %(limit)s
