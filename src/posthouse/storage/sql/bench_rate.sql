-- Jobs a second over the ended jobs: from the first start to the last end.
select count(*) / extract(epoch from max(finished_at) - min(attempt_started_at)) from posthouse.history
