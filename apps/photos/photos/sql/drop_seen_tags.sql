-- The tags that were seen in a picture, before it is looked at again.
delete from tags where source = 'seen'
  and picture_id = (select id from pictures where provider_id = :provider_id and path = :path)
