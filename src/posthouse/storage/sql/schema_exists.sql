-- Whether Posthouse has been set up in this database.
select to_regclass('posthouse.migrations') is not null
