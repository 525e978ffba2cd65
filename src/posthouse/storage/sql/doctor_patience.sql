-- How long a check may take, until the end of its transaction.
select set_config('statement_timeout', %(milliseconds)s::text, true)
