-- Emits a JSON array of events.
select posthouse.emit(e.event, e.context, e.tenant_id, e.id, e.subject, e.correlation_id, e.created_by)
from jsonb_to_recordset(%s::jsonb) as e (
  event text, context jsonb, tenant_id text, id uuid, subject text, correlation_id text, created_by text)
