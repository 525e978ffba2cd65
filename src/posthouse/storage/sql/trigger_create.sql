-- Creates a trigger.
select to_jsonb(t) from posthouse.create_trigger(%(tenant)s, %(fields)s::jsonb, %(actor)s) as t
