-- Triggers, or one of them, with the time of their last job; pages continue after a tenant, label and id.
select
  t.id, t.tenant_id, t.name, t.label, t.enabled, t.type, t.event_name, t.cron_expr, t.timezone, t.definition_key,
  t.payload_template, t.dedupe_window_seconds, t.queue, t.priority, t.gap, t.fold, t.missed, t.catch_up_limit,
  t.overlap, t.jitter_seconds, t.origin, t.next_at, t.last_nominal_at, t.last_error, t.last_error_at, t.created_by,
  t.created_at, t.updated_at, t.version,
  case t.type
    when 'event' then (select m.at from posthouse.matches as m
                       where m.trigger_id = t.id and m.outcome = 'fired' order by m.at desc limit 1)
    else (select r.at from posthouse.schedule_runs as r
          where r.trigger_id = t.id and r.outcome = 'fired' order by r.nominal_at desc limit 1)
  end as last_fired_at
from posthouse.triggers as t
where (%(id)s::uuid is null or t.id = %(id)s::uuid)
  and (%(tenant)s::text is null or t.tenant_id = %(tenant)s::text)
  and (%(type)s::text is null or t.type = %(type)s::text)
  and (%(after)s::text[] is null
    or (t.tenant_id, t.label, t.id::text) > ((%(after)s::text[])[1], (%(after)s::text[])[2], (%(after)s::text[])[3]))
order by t.tenant_id, t.label, t.id::text
limit %(limit)s
