-- What is missing for row-level security to separate tenants.
select posthouse.unguarded()
