"""The process that starts commands and ends them, even if the worker dies.

    worker ── guardian ── monitor ── command ── its own processes

There is one guardian per worker. It forks *monitors*, one per concurrent command: child subreapers, so that
everything a command starts, including setsid and double forks, stays below its monitor in the process tree.
The monitor kills that tree when the command ends, is canceled or times out, and when the worker or the
guardian dies. It communicates with the worker over its own socket: it receives a request, and sends a few
JSON lines. Then it waits for the next command.

These modules run under ``python -I -S``: standard library only, and only relative imports.
"""
