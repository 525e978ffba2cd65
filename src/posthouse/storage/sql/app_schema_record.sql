-- Records the applied version of an application's schema.
insert into posthouse.app_schemas (name, digest) values (%s, %s)
on conflict (name) do update set digest = excluded.digest, applied_at = posthouse.now()
