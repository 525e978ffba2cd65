-- What a bulk enqueue needs to know: whether it may COPY into ready, the time (in microseconds of 2000, as COPY takes
-- it), and the defaults of its kinds.
select not row_security_active('posthouse.ready'),
  (extract(epoch from posthouse.now() - timestamptz '2000-01-01 00:00:00+00') * 1000000)::bigint, jsonb_object_agg(
  d.key, jsonb_build_object(
    'queue', d.queue, 'priority', d.priority, 'max_attempts', d.max_attempts,
    'timeout_seconds', d.timeout_seconds, 'requires', d.requires, 'prefers', d.prefers, 'by', d.limits ->> 'by',
    'kind', case when d.active then d.key else posthouse.refuse_inactive(d.key) end))
  filter (where d.key is not null)
from (select) as one
left join posthouse.definitions as d on d.key = any (%s)
