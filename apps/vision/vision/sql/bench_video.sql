insert into vision.videos (id, team_id, owner_id, s3_original_path, status, ready_at)
values (%(video)s, %(team)s, 'bench', %(path)s, 'ready', now())
