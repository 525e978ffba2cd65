-- Cancel a job that is no longer needed.
select posthouse.cancel(%(id)s, p_actor => %(actor)s)
