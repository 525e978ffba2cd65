-- Switches JIT off for the session if it is ours alone: behind a pooler, which reports another process id, it is shared.
select coalesce(case when pg_backend_pid() = %(pid)s then set_config('jit', 'off', false) end = 'off', false) as direct
