-- Ids of jobs that match a filter, newest first, and the last id searched; see posthouse.sift_jobs.
select ids, looked_to
from posthouse.sift_jobs(
  %(wanted)s::jsonb, %(below)s::uuid, %(limit)s::integer, %(most)s::integer, %(seconds)s::double precision)
