-- The files of a provider below a path.
select id, path, size, changed_ns, sha256, model from pictures
where provider_id = :provider_id and substr(path, 1, length(:prefix)) = :prefix
