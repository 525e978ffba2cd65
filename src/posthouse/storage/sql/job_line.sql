-- How many jobs of its queue and kind are ahead of this one, counted up to a limit, and how many a second end.
select
  (select count(*)
   from (
     select
     from (select distinct l.lane, l.priority, l.turn from posthouse.lanes as l
           where l.queue = %(queue)s and l.kind = %(kind)s and (l.priority, l.turn) <= (%(priority)s, %(turn)s)) as l
     join posthouse.ready as r on r.lane = l.lane
     where (l.priority, l.turn) < (%(priority)s, %(turn)s) or r.position < %(position)s
     limit %(limit)s) as r)::integer as ahead,
  posthouse.recent_pace(%(queue)s, %(kind)s) as pace
