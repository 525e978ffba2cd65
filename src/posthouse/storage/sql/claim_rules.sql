-- Claim settings: the weights of tenants, and whether there are rate limits.
select (select jsonb_object_agg(id, weight) from posthouse.tenants where weight <> 1),
       exists (select from posthouse.limits where rate is not null)
