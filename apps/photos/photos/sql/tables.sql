-- The library of one tenant.
pragma journal_mode = wal;
pragma foreign_keys = on;

create table if not exists providers (id text primary key, label text not null, folder text not null);

-- Photos in the folders. An unreadable photo has no features, but a fault. model: that of the features.
create table if not exists pictures (
  id integer primary key,
  provider_id text not null references providers (id),
  path text not null,
  size integer not null,
  changed_ns integer not null,
  sha256 text not null,
  model text not null,
  width integer,
  height integer,
  features text,
  fault text,
  unique (provider_id, path)
);

create table if not exists tags (
  picture_id integer not null references pictures (id) on delete cascade,
  keyword text not null,
  source text not null check (source in ('automatic', 'trained')),
  confidence real not null,
  primary key (picture_id, keyword, source)
);

create table if not exists models (
  name text not null,
  features_of text not null,
  keyword text not null,
  weights text not null,
  pictures integer not null,
  accuracy real not null,
  primary key (name, keyword)
);

create table if not exists lists (id text primary key, name text not null unique);

create table if not exists list_pictures (
  list_id text not null references lists (id) on delete cascade,
  picture_id integer not null references pictures (id) on delete cascade,
  primary key (list_id, picture_id)
);
