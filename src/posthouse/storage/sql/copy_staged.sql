-- Stores plain jobs in bulk, beside the line.
copy pg_temp.posthouse_staged from stdin (format binary)
