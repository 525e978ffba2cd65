-- Workers lost and workers returned since the last call. Without p_judge missing heartbeats are ignored.
select
  array(select posthouse.bury_dead(
    make_interval(secs => %(grace)s), p_silence => make_interval(secs => %(silence)s::double precision),
    p_judge => %(judge)s, p_remote_grace => make_interval(secs => %(remote_grace)s))),
  array(select posthouse.welcome_back())
