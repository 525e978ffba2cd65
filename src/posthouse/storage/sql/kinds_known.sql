-- The kinds that are defined.
select key from posthouse.definitions where active order by key
