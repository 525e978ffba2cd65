-- A tag that is seen in a picture.
insert into tags (picture_id, keyword, source, confidence)
select id, :keyword, 'seen', :confidence from pictures where provider_id = :provider_id and path = :path
