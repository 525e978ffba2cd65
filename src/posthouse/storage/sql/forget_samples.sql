-- Forgets samples older than so many days.
select posthouse.forget_samples(posthouse.now() - make_interval(secs => %s * 86400))
