-- Ids of queued jobs created within a range, newest first.
(select id from posthouse.ready where id >= %(low)s and id < %(high)s order by id desc limit %(most)s)
union all
(select id from posthouse.waiting where id >= %(low)s and id < %(high)s order by id desc limit %(most)s)
