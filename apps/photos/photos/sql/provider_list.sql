-- All providers, the first one first.
select id, label, folder from providers order by rowid
