-- Deletes artifacts of jobs that ended more than so many days ago; returns how many.
select posthouse.forget_artifacts(posthouse.now() - make_interval(secs => %s * 86400))
