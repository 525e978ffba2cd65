-- Delete the tags of a photo; source: only those of this source, unless null.
delete from tags where (:source is null or source = :source)
  and picture_id = (select id from pictures where provider_id = :provider_id and path = :path)
