-- The nth job of its lane.
select id from posthouse.ready order by lane, position offset %s - 1 limit 1
