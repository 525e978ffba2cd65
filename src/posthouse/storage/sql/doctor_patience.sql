-- Sets the statement timeout of a check for its transaction.
select set_config('statement_timeout', %(milliseconds)s::text, true)
