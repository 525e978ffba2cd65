-- Uses generic plans for the rest of the transaction.
select set_config('plan_cache_mode', 'force_generic_plan', true)
