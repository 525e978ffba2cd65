-- Insert a file of a call. Idempotent, because its path never changes.
insert into calls.artifacts (call_id, org_id, kind, path) values (%(call)s, %(org)s, %(kind)s, %(path)s)
on conflict do nothing
