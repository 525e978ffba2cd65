"""The process that starts commands and ends them, whatever becomes of the worker.

worker ── guardian ── minder ── command ── whatever it starts

One guardian per worker, started once. It forks *minders*, as many as there are commands at a time: child
subreapers, so that everything a command starts, setsid and double forks included, stays below its minder in
the process tree. The minder ends that tree when the command ends, when it is told to, when its time is up,
and when the worker or the guardian dies. It talks to the worker over a socket of its own: a request in, a few
JSON lines out. Then it waits for the next command.

These modules run under ``python -I -S``: the standard library only, and only relative imports.
"""
