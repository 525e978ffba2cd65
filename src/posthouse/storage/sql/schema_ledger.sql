-- The table of applied migrations.
create schema if not exists posthouse;
create table posthouse.migrations (
  number integer primary key,
  name text not null,
  applied_at timestamptz not null default now()
)
