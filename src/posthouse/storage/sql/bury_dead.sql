-- Workers found dead.
select posthouse.bury_dead(make_interval(secs => %s))
