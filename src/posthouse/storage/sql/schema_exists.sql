-- Whether this database has a Posthouse schema.
select to_regclass('posthouse.migrations') is not null
