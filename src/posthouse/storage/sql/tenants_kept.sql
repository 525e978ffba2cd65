-- Tenants that keep their jobs longer or shorter than the others.
select id, retention_days from posthouse.tenants where retention_days is not null order by id
