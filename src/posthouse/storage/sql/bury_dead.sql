-- Workers found dead.
select posthouse.bury_dead(make_interval(secs => %s), p_silence => make_interval(secs => %s))
