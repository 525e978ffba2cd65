-- The last so many attempts at a job, and since when each could have started as far as it is on record.
select a.generation, a.attempt, a.worker_id, nullif(w.name, '') as worker, a.started_at, a.finished_at, a.outcome,
       a.error ->> 'type' as error_type, a.error ->> 'message' as error_message, a.ready_at
from (
  (select generation, attempt, worker_id, started_at, finished_at, outcome, error, ready_at
   from posthouse.past_attempts where job_id = %(id)s order by started_at desc limit %(most)s)
  union all
  select generation, attempt_count, worker_id, attempt_started_at, finished_at, outcome, error, null
  from posthouse.history where id = %(id)s and attempt_started_at is not null
  union all
  select generation, attempt_count, worker_id, attempt_started_at, null, 'running', null, null
  from posthouse.running where id = %(id)s
) as a
left join posthouse.seen_workers() as w on w.id = a.worker_id
order by a.generation desc, a.started_at desc
limit %(most)s
