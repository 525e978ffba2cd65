-- What is missing for the API to keep tenants apart.
select posthouse.unguarded()
