-- The recognition of the local recognizer, which is a job: how it ended, if it has.
select j.status, j.result, coalesce(j.error ->> 'message', j.last_error) from posthouse.jobs as j
where j.id = %(job)s::uuid and j.tenant_id = %(org)s and j.kind = 'calls.recognize'
