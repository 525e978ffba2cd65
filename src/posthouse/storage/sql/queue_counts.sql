-- The unfinished jobs of a queue, and whether it is paused.
select
  %(name)s::text as name,
  (select count(*) from posthouse.running where queue = %(name)s)::integer as running,
  (select count(*) from posthouse.ready where queue = %(name)s)::integer as ready,
  (select count(*) from posthouse.waiting where queue = %(name)s)::integer as waiting,
  (select q.paused_at from posthouse.queues as q where q.name = %(name)s) as paused_at
