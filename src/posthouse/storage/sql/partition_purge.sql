-- Deletes the rows of tenants from some pages of a partition.
select rows, next_page from posthouse.purge_pages(%(name)s, %(tenants)s, %(page)s, %(pages)s)
