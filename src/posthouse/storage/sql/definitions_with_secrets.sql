-- What says which parts of a payload are secret, of each kind that says so.
select key, schema::text as schema, redact from posthouse.definitions where redact <> '{}' or schema <> '{}'
