-- Records an applied migration.
insert into posthouse.migrations (number, name, lowest_code) values (%s, %s, %s)
