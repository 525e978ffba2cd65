-- Retires a function that is about to be created with another result.
select posthouse.retire_functions(array(
  select oid from pg_proc where pronamespace = 'posthouse'::regnamespace and proname = %s), p_rename => true)
