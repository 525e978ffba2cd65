-- Remembers that this version of an application's schema was run.
insert into posthouse.app_schemas (name, digest) values (%s, %s)
on conflict (name) do update set digest = excluded.digest, applied_at = posthouse.now()
