"""Run workers in child processes: start and watch the processes, kill and replace those that are stuck.

supervisor ── guardian ── monitor ── child (a worker, with the processes that it starts)

The supervisor runs no handlers, so no handler can block it. Each child records in shared memory that its
interpreter and its event loop run (posthouse.worker.status), and exchanges a few JSON lines with the
supervisor over a socket: channel.py is the child's end, child.py the supervisor's end.
"""
