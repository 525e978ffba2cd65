-- Deletes workers, dedupe keys, responses and progress that are no longer needed; returns how many rows.
select posthouse.tidy(posthouse.now() - make_interval(secs => %s * 86400))
