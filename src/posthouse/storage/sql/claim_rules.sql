-- What a worker knows of the rules of claiming: weights of tenants, and whether there are rates.
select (select jsonb_object_agg(id, weight) from posthouse.tenants where weight <> 1),
       exists (select from posthouse.limits where rate is not null)
