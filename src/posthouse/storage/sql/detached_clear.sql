-- Deletes dependent rows of the jobs on some pages of a detached partition; returns the next page.
select posthouse.clear_detached(%(name)s, %(page)s, %(pages)s)
