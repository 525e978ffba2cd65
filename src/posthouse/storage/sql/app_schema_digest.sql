-- The last applied version of an application's schema.
select digest from posthouse.app_schemas where name = %s
