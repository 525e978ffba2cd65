-- The tables of applied migrations and of the functions that are installed.
create schema if not exists posthouse;
create table posthouse.migrations (
  number integer primary key,
  name text not null,
  applied_at timestamptz not null default now(),
  lowest_code text not null                 -- the oldest version of Posthouse that works with it
);
create table posthouse.installed_functions (
  one boolean primary key default true check (one),
  version text not null,                    -- of Posthouse, which installed them
  digest text not null,
  installed_at timestamptz not null default now()
)
