"""Handlers in separate processes: a pool of warm interpreters that run jobs for the worker.

The worker's side is pool -> process -> protocol, the process's side protocol -> child. Processes are started
and killed with all descendants, as commands are (commands.child).
"""
