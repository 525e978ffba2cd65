-- Readable photos below a path.
select id, provider_id, path, width, height, features from pictures
where features is not null and model = :model and substr(path, 1, length(:prefix)) = :prefix
order by id
