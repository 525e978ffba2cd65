-- Queues an event to be matched again.
select posthouse.replay_event(%(id)s, %(triggers)s::uuid[], %(tenant)s, %(actor)s)
