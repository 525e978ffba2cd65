"""For demos of applications: the product, running, and a way to show what happens on it.

An application offers its demo as an entry point in ``posthouse.demos``: a coroutine function that takes a
``Stage`` and returns what it found, which `posthouse demo NAME` prints.
"""

from posthouse.demo.stage import Stage

__all__ = ["Stage"]
