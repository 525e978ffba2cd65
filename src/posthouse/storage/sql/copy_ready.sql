-- Stores plain jobs in bulk.
copy posthouse.ready (@plain@)
from stdin (format binary)
