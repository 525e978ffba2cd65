"""Two ways to fail: for good, and for now."""


class Hopeless(Exception):
    """Another try would end the same."""


class Later(Exception):
    """A later try may do better."""
