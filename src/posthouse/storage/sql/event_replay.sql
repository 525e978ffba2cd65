-- Has an event matched once more.
select posthouse.replay_event(%(id)s, %(triggers)s::uuid[], %(tenant)s, %(actor)s)
