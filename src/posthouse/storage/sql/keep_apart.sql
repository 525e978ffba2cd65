-- Applies row-level security to the tables of a migration.
select posthouse.keep_apart()
