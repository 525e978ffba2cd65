-- Removes deleted storage keys from the list.
delete from posthouse.discarded_blobs where place = any (%(places)s)
