-- A tag by training.
insert into tags (picture_id, keyword, source, confidence) values (:picture_id, :keyword, 'trained', :confidence)
