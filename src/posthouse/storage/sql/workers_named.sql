-- Workers by id or name: the live ones, else the last one.
with meant as (
  select w.id, w.name, w.started_at,
         posthouse.is_there(w, %(offline_after)s) as alive
  from posthouse.workers as w where %(who)s in (w.id::text, w.name)
)
select m.id, m.name, m.alive from meant as m
where m.alive or m.id = (select o.id from meant as o where not exists (select from meant as a where a.alive)
                         order by o.started_at desc limit 1)
order by m.name, m.id
