-- Gives a file to a queued job; says whether it is there and has not started.
select posthouse.attach(%s::jsonb)
