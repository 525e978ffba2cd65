-- Delete the trained tags of a photo.
delete from tags where source = 'trained' and picture_id = :picture_id
