-- The scope of each worker that is online and not disabled.
select only_tenant, queues from posthouse.workers as w
where posthouse.is_there(w, %(offline_after)s) and w.disabled_at is null
