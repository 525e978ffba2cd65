-- Insert a tag of a photo.
insert into tags (picture_id, keyword, source, confidence)
select id, :keyword, :source, :confidence from pictures where provider_id = :provider_id and path = :path
