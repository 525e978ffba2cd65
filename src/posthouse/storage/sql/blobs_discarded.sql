-- Storage keys of deleted artifacts.
select place from posthouse.discarded_blobs order by at limit %(limit)s
