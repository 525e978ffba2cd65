-- Progress of the jobs of a correlation, by kind.
select j.kind, count(*) as jobs,
       count(*) filter (where j.status = 'succeeded') as succeeded,
       count(*) filter (where j.status in ('failed', 'dead_letter', 'canceled')) as unsuccessful,
       sum(case when j.status = 'succeeded' then 1 else coalesce(j.progress_percent, 0) / 100 end)::float8 as done
from posthouse.jobs as j
where j.correlation_id = %(correlation_id)s
group by j.kind
order by min(j.queued_at), j.kind
