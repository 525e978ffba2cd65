-- Delete the rows of uploads that nothing was added to for some time.
delete from vlog.partial_uploads as r where r.changed_at < posthouse.now() - make_interval(secs => %(seconds)s)
