-- Insert a video; no row if the slug is taken.
insert into vlog.uploads (slug, title) values (%(slug)s, %(title)s)
on conflict (slug) do nothing
returning id
