-- They are deleted.
delete from posthouse.discarded_blobs where place = any (%(places)s)
