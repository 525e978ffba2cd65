-- Writes progress and parts of many jobs; returns those that were not written.
select id, verdict from posthouse.report(%s, make_interval(secs => %s))
