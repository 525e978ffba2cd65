-- Enqueuing jobs and emitting events.

-- name: bulk_prepare
-- What a bulk enqueue needs to know: whether it may COPY into ready, the current time (in microseconds since 2000, the
-- format of COPY), and the defaults of its kinds.
select not row_security_active('posthouse.ready'),
  (extract(epoch from posthouse.now() - timestamptz '2000-01-01 00:00:00+00') * 1000000)::bigint, jsonb_object_agg(
  d.key, jsonb_build_object(
    'queue', d.queue, 'priority', d.priority, 'max_attempts', d.max_attempts,
    'timeout_seconds', d.timeout_seconds, 'requires', d.requires, 'prefers', d.prefers, 'by', d.limits ->> 'by',
    'kind', case when d.active then d.key else posthouse.raise_inactive(d.key) end))
  filter (where d.key is not null)
from (select) as one
left join posthouse.definitions as d on d.key = any (%s)

-- name: copy_ready
-- Stores plain jobs in bulk.
copy posthouse.ready (@plain@)
from stdin (format binary)

-- name: staging_create
-- Creates a staging table for COPY, which is not possible into a table with row-level security. It is dropped at the
-- end of the transaction.
create temporary table posthouse_staged on commit drop as
select @plain@
from posthouse.ready
with no data

-- name: staging_copy
-- Stores plain jobs in bulk in the staging table.
copy pg_temp.posthouse_staged from stdin (format binary)

-- name: staging_insert
-- Moves staged jobs into ready, in the order in which they were stored.
insert into posthouse.ready (@plain@)
select @plain@ from pg_temp.posthouse_staged order by ctid

-- name: staging_drop
-- Drops the staging table, so that the transaction can create it again.
drop table pg_temp.posthouse_staged

-- name: open_lanes
-- Inserts lanes from a JSON array, so that claims read them.
select posthouse.open_lanes(array(
  select (posthouse.lane_number(l.queue, l.kind, l.tenant_id, l.priority, l.rank, null, w.requires, w.prefers),
          l.queue, l.kind, l.tenant_id, l.priority, l.rank, null, w.requires, w.prefers)::posthouse.lane
  from jsonb_to_recordset(%s::jsonb) as l (
    queue text, kind text, tenant_id text, priority integer, rank smallint, requires text[], prefers text[])
  cross join lateral (select nullif(l.requires, '{}'), nullif(l.prefers, '{}')) as w (requires, prefers)))

-- name: wake
-- Notifies the workers that requested a wakeup for these queues.
select posthouse.wake(%s)

-- name: undefined_note
-- Records copied jobs of a kind without a definition, with the options that they take from the definition once it
-- exists.
insert into posthouse.undefined_jobs (kind, took, job_id) select %s, %s::text[], unnest(%s::uuid[])

-- name: enqueue_one
-- Enqueues one plain job.
select posthouse.enqueue_one(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)

-- name: enqueue_simple
-- Enqueues one plain job without options.
select posthouse.enqueue_one(%s, %s, %s, %s)

-- name: enqueue_many
-- Enqueues many jobs from one JSON array.
select ordinal, id, outcome from posthouse.enqueue_many(%s::jsonb)

-- name: enqueue_here
-- Enqueues many jobs from one JSON array on the caller's connection, for the tenant of its transaction if it has one.
select ordinal, id, outcome from posthouse.enqueue_here(%s::jsonb)

-- name: enqueue_for
-- Enqueues many jobs from one JSON array, for this tenant, in a transaction of its own.
select ordinal, id, outcome, queued_at from posthouse.enqueue_for(%s, %s::jsonb)

-- name: tenant_enqueue
-- Enqueues many jobs from one JSON array, for the tenant of the transaction.
select ordinal, id, outcome, queued_at from posthouse.tenant_enqueue(%s::jsonb)

-- name: emit
-- Emits a JSON array of events.
select posthouse.emit(e.event, e.context, e.tenant_id, e.id, e.subject, e.correlation_id, e.created_by)
from jsonb_to_recordset(%s::jsonb) as e (
  event text, context jsonb, tenant_id text, id uuid, subject text, correlation_id text, created_by text)
