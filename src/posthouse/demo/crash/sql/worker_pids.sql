-- The process ids of the workers that have announced themselves.
select pid from posthouse.workers where stopped_at is null;
