-- All trained tags of a picture.
delete from tags where source = 'trained' and picture_id = :picture_id
