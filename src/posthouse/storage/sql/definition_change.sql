-- Changes and clears fields of a definition; null if it does not exist. Audited.
select to_jsonb(d) from posthouse.change_definition(%(key)s, %(changes)s::jsonb, %(clear)s::text[], %(actor)s) as d
where d.key is not null
