-- Running jobs: the worker, and a number that changes with every visible change. Read several times a second.
select uuid_send(id), uuid_send(worker_id),
       hashtextextended(concat_ws('|', generation, attempt_count, progress_percent, current_step,
                                  cancel_requested_at is null), 0)
from posthouse.running
where %(ids)s::uuid[] is null or id = any (%(ids)s::uuid[])
