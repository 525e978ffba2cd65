-- Guards what a migration has made.
select posthouse.keep_apart()
