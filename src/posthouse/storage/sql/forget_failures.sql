-- Deletes failure groups and bulk retries without activity for a number of days.
select posthouse.forget_failures(before) + posthouse.forget_bulk_changes(before)
from (select posthouse.now() - make_interval(secs => %s * 86400) as before) as b
