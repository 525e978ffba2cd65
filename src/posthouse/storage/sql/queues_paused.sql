-- Queues that are paused.
select name from posthouse.queues where paused_at is not null order by name
