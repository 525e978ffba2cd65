-- The functions of the schema, each with the place of its row in the catalog, which changes when it is replaced.
select oid, ctid::text from pg_proc where pronamespace = to_regnamespace('posthouse')
