-- A call of this organisation.
select duration from calls.calls where id = %(call)s and org_id = %(org)s
