-- The contents of all photos.
select distinct sha256 from pictures
