-- Bytes that belong to nothing any more.
select place from posthouse.discarded_blobs order by at limit %(limit)s
