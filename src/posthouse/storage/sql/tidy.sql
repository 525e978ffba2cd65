-- Forgets workers and keys that no longer mean anything; returns how many.
select posthouse.tidy(posthouse.now() - make_interval(secs => %s * 86400))
