-- Queued jobs, oldest first.
select * from posthouse.jobs
where status = 'queued' and (%(kind)s::text is null or kind = %(kind)s)
order by queued_at, id
