-- Claims jobs. Ids and times come as raw bytes and payloads as text: the worker decodes what it looks at.
select
  uuid_send(c.id), c.kind, c.queue, c.tenant_id,
  coalesce(c.payload, (select body from posthouse.payloads as p where p.job_id = c.id))::text,
  c.attempt_count, c.max_attempts, c.priority, c.lane, c.position, c.crashes, c.snoozes, c.generation,
  c.timeout_seconds, c.retry, c.correlation_id, c.subject, c.parent_id,
  timestamptz_send(c.queued_at), timestamptz_send(c.scheduled_for), timestamptz_send(c.started_at),
  timestamptz_send(c.attempt_started_at), c.last_error, c.trace
from posthouse.claim(
  %(worker)s, %(token)s, %(queues)s, %(kinds)s, %(limit)s, make_interval(secs => %(lease)s),
  %(lanes)s, %(marks)s, %(careful)s, %(offers)s, %(tenants)s, %(served)s,
  make_interval(secs => %(patience)s), %(least)s) as c
