-- Resumes a queue; false if it is not paused.
select posthouse.resume_queue(%(name)s, %(actor)s)
