-- Ends a job that has become pointless.
select posthouse.cancel(%(id)s, p_actor => %(actor)s)
