-- What the stages know of a call, if it is one of this organisation.
select duration from calls.calls where id = %(call)s and org_id = %(org)s
