-- Whether this database has a Posthouse schema.
select to_regclass('posthouse.installed_functions') is not null
