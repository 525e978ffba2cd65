-- The error of the latest attempt of a job that has this fingerprint.
select error from (
  select a.error, a.finished_at from posthouse.past_attempts as a
  where a.job_id = %(job_id)s and a.error ->> 'fingerprint' = %(fingerprint)s
  union all
  select h.error, h.finished_at from posthouse.history as h
  where h.id = %(job_id)s and h.error ->> 'fingerprint' = %(fingerprint)s
) as found
order by finished_at desc
limit 1
