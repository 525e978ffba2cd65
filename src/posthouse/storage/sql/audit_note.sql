-- Notes what somebody did.
select posthouse.note(%(actor)s, %(action)s, %(tenant)s, %(target)s, %(before)s::jsonb, %(after)s::jsonb)
