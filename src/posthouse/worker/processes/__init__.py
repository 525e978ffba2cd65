"""Handlers in separate processes: a pool of warm interpreters that run jobs for the worker.

The worker's side is pool -> link -> wire, the process's side wire -> inside. ``place`` finds the import path
of a handler. Processes are started and killed with all descendants, as commands are (commands.child).
"""
