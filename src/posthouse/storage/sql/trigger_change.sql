-- Changes fields of a trigger; no row if it does not exist.
select to_jsonb(t) from posthouse.change_trigger(%(id)s, %(changes)s::jsonb, %(tenant)s, %(actor)s) as t
where t.id is not null
