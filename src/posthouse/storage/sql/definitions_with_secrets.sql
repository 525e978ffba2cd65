-- Schema and redaction paths of the kinds that mark secrets.
select key, schema::text as schema, redact from posthouse.definitions where redact <> '{}' or schema <> '{}'
