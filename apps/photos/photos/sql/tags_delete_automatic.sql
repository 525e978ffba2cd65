-- Delete the computed tags of a photo.
delete from tags where source = 'automatic'
  and picture_id = (select id from pictures where provider_id = :provider_id and path = :path)
