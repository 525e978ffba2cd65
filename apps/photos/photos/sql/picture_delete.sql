-- Delete a photo.
delete from pictures where id = :id
