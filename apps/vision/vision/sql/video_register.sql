-- Insert a video before its upload.
insert into vision.videos (id, team_id, owner_id, title, s3_original_path, options)
values (%(id)s, %(team)s, %(owner)s, %(title)s, %(path)s, %(options)s)
