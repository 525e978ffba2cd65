-- Pictures that can be read, all or those below a part of the folders.
select id, provider_id, path, width, height, features from pictures
where features is not null and substr(path, 1, length(:prefix)) = :prefix
order by id
