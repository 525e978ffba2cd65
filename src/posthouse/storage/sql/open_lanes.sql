-- Inserts lanes from a JSON array, so that claims read them.
select posthouse.open_lanes(array(
  select (posthouse.lane_number(l.queue, l.kind, l.tenant_id, l.priority, l.turn, null, w.requires, w.prefers),
          l.queue, l.kind, l.tenant_id, l.priority, l.turn, null, w.requires, w.prefers)::posthouse.lane
  from jsonb_to_recordset(%s::jsonb) as l (
    queue text, kind text, tenant_id text, priority integer, turn smallint, requires text[], prefers text[])
  cross join lateral (select nullif(l.requires, '{}'), nullif(l.prefers, '{}')) as w (requires, prefers)))
