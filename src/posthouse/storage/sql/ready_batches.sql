-- Batch kinds with ready jobs: how many jobs, at most one batch, and the newest position.
select kind, jobs, newest
from posthouse.ready_batches(%(worker)s, %(queues)s, %(kinds)s, %(sizes)s, %(lanes)s, %(marks)s)
