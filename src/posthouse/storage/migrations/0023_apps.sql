-- Applications: the files of SQL that made tables of their own, and which version of each was run last.
create table posthouse.app_schemas (
  name text primary key,
  digest text not null,
  applied_at timestamptz not null default posthouse.now()
);
