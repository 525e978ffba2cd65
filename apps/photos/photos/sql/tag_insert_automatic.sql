-- Insert a computed tag of a photo.
insert into tags (picture_id, keyword, source, confidence)
select id, :keyword, 'automatic', :confidence from pictures where provider_id = :provider_id and path = :path
