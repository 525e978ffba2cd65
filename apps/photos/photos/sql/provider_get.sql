-- A provider.
select id, label, folder from providers where id = :id
