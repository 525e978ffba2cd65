-- Who went offline, and who came back. Without a silence nobody is offline for being quiet.
select
  array(select posthouse.bury_dead(
    make_interval(secs => %(grace)s), p_silence => make_interval(secs => %(silence)s::double precision))),
  array(select posthouse.welcome_back())
