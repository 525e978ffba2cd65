-- End jobs whose payload only newer code accepts and that no worker could run for a time.
select * from posthouse.expire_mismatched(make_interval(secs => %s), %s)
