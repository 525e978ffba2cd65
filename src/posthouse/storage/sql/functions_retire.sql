-- Retires functions that are no longer part of the schema.
select posthouse.retire_functions(%s::oid[])
