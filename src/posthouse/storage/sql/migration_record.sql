-- Notes that a migration was applied.
insert into posthouse.migrations (number, name) values (%s, %s)
