-- Ends the matching of taken events: makes the jobs.
select fired, deduped, errors from posthouse.match_events(%(events)s, %(results)s::jsonb)
