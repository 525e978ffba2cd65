-- Stores the definitions, limits and triggers of a worker's code; returns the kinds left out, with the reason.
select posthouse.announce_code(%(definitions)s::jsonb, %(limits)s::jsonb, %(triggers)s::jsonb, %(key)s)
