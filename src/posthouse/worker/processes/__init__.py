"""Handlers in processes of their own: a pool of warm interpreters that the worker hands jobs to.

The worker's side is pool -> link -> wire, the other side wire -> inside; place says where a handler is
imported from, and the undertaker ends what a killed worker leaves behind.
"""
