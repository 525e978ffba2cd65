-- Make the configured model the first active one.
insert into embeddings.models (active) values (%(active)s) on conflict do nothing
