-- The intervals with a known backlog at their end.
select distinct date_bin(make_interval(secs => %(step)s), m.minute, '2000-01-01 00:00:00+00') as at
from posthouse.sampled_minutes as m
where m.backlog and m.minute >= %(since)s and m.minute < %(until)s
