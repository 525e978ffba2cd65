-- Jobs a second over the ended jobs, or over the last so many: from the first start to the last end.
select count(*) / extract(epoch from max(finished_at) - min(attempt_started_at))
from (select attempt_started_at, finished_at from posthouse.history
      order by finished_at desc limit %s) as ended
