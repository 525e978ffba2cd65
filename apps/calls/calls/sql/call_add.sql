-- Insert a call.
insert into calls.calls (id, org_id, title, created_by) values (%(call)s, %(org)s, %(title)s, %(actor)s)
