-- Forgets failure groups and bulk retries of which nothing was heard for so many days.
select posthouse.forget_failures(before) + posthouse.forget_bulk_changes(before)
from (select posthouse.now() - make_interval(secs => %s * 86400) as before) as b
