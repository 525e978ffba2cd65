-- A photo and the folder that it is in.
select p.path, p.sha256, r.folder from pictures as p join providers as r on r.id = p.provider_id where p.id = :id
