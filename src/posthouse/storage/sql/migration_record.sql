-- Records an applied migration.
insert into posthouse.migrations (number, name) values (%s, %s)
