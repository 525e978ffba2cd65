-- The figures of a call.
select figures from calls.analyses where call_id = %(call)s
