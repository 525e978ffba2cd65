-- Reports progress and parts of many jobs; says which did not land.
select id, verdict from posthouse.report(%s, make_interval(secs => %s))
