-- The keys of all definitions.
select key from posthouse.definitions order by key
