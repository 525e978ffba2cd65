-- The schema itself: migrations, installed functions, settings of a connection.

-- name: connection_setup
-- Switches JIT off for the session, unless it is shared: a pooler reports another process id in the handshake.
select coalesce(case when pg_backend_pid() = %(pid)s then set_config('jit', 'off', false) end = 'off', false) as direct

-- name: generic_plans
-- Uses generic plans for the rest of the transaction.
select set_config('plan_cache_mode', 'force_generic_plan', true)

-- name: schema_exists
-- Whether this database has a Posthouse schema.
select to_regclass('posthouse.installed_functions') is not null

-- name: schema_version
-- The newest applied migration, and the oldest versions of Posthouse that the applied migrations work with.
select coalesce(max(number), 0) as number, coalesce(array_agg(distinct lowest_code), '{}') as lowest_codes
from posthouse.migrations

-- name: schema_create
-- Creates the tables of applied migrations and of installed functions.
create schema if not exists posthouse;
create table posthouse.migrations (
  number integer primary key,
  name text not null,
  applied_at timestamptz not null default now(),
  lowest_code text not null,                -- the oldest version of Posthouse that works with it
  digest text not null default ''           -- of its statements
);
create table posthouse.installed_functions (
  one boolean primary key default true check (one),
  version text not null,                    -- the version of Posthouse that installed them
  digest text not null,
  installed_at timestamptz not null default now()
)

-- name: migration_settings
-- Settings of a migration. Bodies of functions are not checked: they may call functions that are created later.
select set_config('lock_timeout', %(lock_timeout)s, true), set_config('check_function_bodies', 'off', true)

-- name: migration_record
-- Records an applied migration.
insert into posthouse.migrations (number, name, lowest_code, digest) values (%s, %s, %s, %s)

-- name: migrations_applied
-- The applied migrations and the digests of their statements; null in databases of before there were digests.
select number, to_jsonb(m) ->> 'digest' as digest from posthouse.migrations as m

-- name: functions_installed
-- The version of Posthouse that installed the functions, and their digest.
select version, digest from posthouse.installed_functions

-- name: functions_list
-- The functions of the schema, each with the ctid of its catalog row, which changes when the function is replaced.
select oid, ctid::text from pg_proc where pronamespace = to_regnamespace('posthouse')

-- name: functions_record
-- Records the functions that are installed.
insert into posthouse.installed_functions (version, digest) values (%s, %s)
on conflict (one) do update set version = excluded.version, digest = excluded.digest, installed_at = now()

-- name: functions_rename
-- Retires a function that is about to be created with another result type.
select posthouse.retire_functions(array(
  select oid from pg_proc where pronamespace = 'posthouse'::regnamespace and proname = %s), p_rename => true)

-- name: app_schema_digest
-- The last applied version of an application's schema.
select digest from posthouse.app_schemas where name = %s

-- name: app_schema_record
-- Records the applied version of an application's schema.
insert into posthouse.app_schemas (name, digest) values (%s, %s)
on conflict (name) do update set digest = excluded.digest, applied_at = posthouse.now()
