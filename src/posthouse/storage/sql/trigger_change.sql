-- Changes fields of a trigger; no row if there is none.
select to_jsonb(t) from posthouse.change_trigger(%(id)s, %(changes)s::jsonb, %(tenant)s, %(actor)s) as t
where t.id is not null
