-- Stores plain jobs in bulk in the staging table.
copy pg_temp.posthouse_staged from stdin (format binary)
