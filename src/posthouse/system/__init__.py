"""Background services: the keeper, periodic doctor checks, and Posthouse's own jobs.

Builds on the keeper and the worker, which do not depend on each other.
"""
