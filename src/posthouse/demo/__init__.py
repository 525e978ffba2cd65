"""Demos of applications, run by `posthouse demo NAME`.

An application offers its demo as an entry point in ``posthouse.demos``: a coroutine function that takes a
``Stage`` and returns a dictionary of results, which `posthouse demo NAME` prints.
"""

from posthouse.demo.stage import Stage

__all__ = ["Stage"]
