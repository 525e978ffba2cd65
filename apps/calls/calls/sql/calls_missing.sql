-- Which of these calls do not exist.
select i.id from unnest(%(ids)s::uuid[]) as i (id) where not exists (select from calls.calls as c where c.id = i.id)
