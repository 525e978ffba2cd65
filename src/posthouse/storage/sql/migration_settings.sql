-- Settings of a migration. Bodies of functions are not checked: they may call functions that are created later.
select set_config('lock_timeout', %(lock_timeout)s, true), set_config('check_function_bodies', 'off', true)
