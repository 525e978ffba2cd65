-- A file of a call. It is always the same one, so a second time changes nothing.
insert into calls.artifacts (call_id, org_id, kind, path) values (%(call)s, %(org)s, %(kind)s, %(path)s)
on conflict do nothing
