-- The worker that was registered last with a key, and what it serves.
select id, queues, kinds, offers from posthouse.workers where key = %(key)s order by started_at desc limit 1
