-- Clears what hangs on the jobs of some pages of a detached partition; returns the page to go on with.
select posthouse.clear_detached(%(name)s, %(page)s, %(pages)s)
