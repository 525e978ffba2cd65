-- How many pages a table has.
select pg_relation_size(to_regclass('posthouse.' || quote_ident(%(name)s))) / current_setting('block_size')::integer
