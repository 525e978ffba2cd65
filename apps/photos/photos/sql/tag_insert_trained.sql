-- Insert a trained tag of a photo.
insert into tags (picture_id, keyword, source, confidence) values (:picture_id, :keyword, 'trained', :confidence)
