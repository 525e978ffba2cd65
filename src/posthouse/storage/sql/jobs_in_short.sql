-- How many jobs have each status, each counted up to a number, and since when the oldest ready job could have started.
-- What is ready is found by its lanes: a tenant's own are few, however long those of others are.
with mine as materialized (
  select distinct lane from posthouse.lanes where %(tenant)s::text is null or tenant_id = %(tenant)s::text
)
select
  (select count(*) from (
    select from mine join posthouse.ready as r on r.lane = mine.lane limit %(most)s) as c) as ready,
  (select count(*) from (select from posthouse.waiting as w
    where %(tenant)s::text is null or w.tenant_id = %(tenant)s::text limit %(most)s) as c) as waiting,
  (select count(*) from (select from posthouse.running as r
    where %(tenant)s::text is null or r.tenant_id = %(tenant)s::text limit %(most)s) as c) as running,
  (select count(*) from (select from posthouse.history as h where h.status = 'succeeded'
    and (%(tenant)s::text is null or h.tenant_id = %(tenant)s::text) limit %(most)s) as c) as succeeded,
  (select count(*) from (select from posthouse.history as h where h.status = 'failed' and h.status <> 'succeeded'
    and (%(tenant)s::text is null or h.tenant_id = %(tenant)s::text) limit %(most)s) as c) as failed,
  (select count(*) from (select from posthouse.history as h where h.status = 'canceled' and h.status <> 'succeeded'
    and (%(tenant)s::text is null or h.tenant_id = %(tenant)s::text) limit %(most)s) as c) as canceled,
  (select count(*) from (select from posthouse.history as h where h.status = 'dead_letter' and h.status <> 'succeeded'
    and (%(tenant)s::text is null or h.tenant_id = %(tenant)s::text) limit %(most)s) as c) as dead_letter,
  extract(epoch from posthouse.now() - (
    select min(h.since) from mine cross join lateral (
      select greatest(r.queued_at, r.scheduled_for) as since
      from posthouse.ready as r where r.lane = mine.lane order by r.position limit 1) as h)
  )::double precision as oldest_queued_seconds
