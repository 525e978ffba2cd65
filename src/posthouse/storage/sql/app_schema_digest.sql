-- Which version of an application's schema was run last.
select digest from posthouse.app_schemas where name = %s
