-- What is known of a provider's folder, or of what is below a part of it.
select id, path, size, changed_ns, sha256 from pictures
where provider_id = :provider_id and substr(path, 1, length(:prefix)) = :prefix
