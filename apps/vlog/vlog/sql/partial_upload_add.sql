-- Insert an upload in parts.
insert into vlog.partial_uploads (title, suffix, size) values (%(title)s, %(suffix)s, %(size)s)
returning id::text, title, suffix, size, video_id
