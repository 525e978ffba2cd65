-- Tenants with their own retention.
select id, retention_days from posthouse.tenants where retention_days is not null order by id
