-- Deletes samples older than a number of days.
select posthouse.forget_samples(posthouse.now() - make_interval(secs => %s * 86400))
