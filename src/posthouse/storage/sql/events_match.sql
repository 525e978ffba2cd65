-- Finishes the matching of events: creates the jobs.
select fired, deduped, errors from posthouse.match_events(%(events)s, %(results)s::jsonb)
