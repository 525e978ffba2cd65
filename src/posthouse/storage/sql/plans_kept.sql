-- For the rest of the transaction: plans that were made once serve all that is asked.
select set_config('plan_cache_mode', 'force_generic_plan', true)
