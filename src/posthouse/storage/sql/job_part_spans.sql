-- The latest steps and parts of a job that have started.
(select 'step' as type, name, 'succeeded' as status, generation, attempt,
        finished_at - make_interval(secs => coalesce(seconds, 0)) as started_at, finished_at, null as error
 from posthouse.steps where job_id = %(id)s order by ordinal desc limit %(most)s)
union all
(select 'part', name, status, generation, attempt, coalesce(started_at, finished_at), finished_at, error
 from posthouse.parts where job_id = %(id)s and coalesce(started_at, finished_at) is not null
 order by ordinal desc limit %(most)s)
