-- Records the functions that are installed.
insert into posthouse.installed_functions (version, digest) values (%s, %s)
on conflict (one) do update set version = excluded.version, digest = excluded.digest, installed_at = now()
