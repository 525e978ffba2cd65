"""Track which tenants a worker has served, so that tenants get their share over many claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

LEAST_MEMORY = 8


class Shares:
    """Jobs served per tenant, divided by the tenant's weight. Claims prefer tenants with low values.

    A tenant without jobs for some claims is removed; it comes back level with the least served of the others.
    Otherwise it could catch up for its idle time at their cost.
    """

    def __init__(self) -> None:
        self.weights: Mapping[str, float] = {}
        """Weights of the tenants whose weight is not 1."""
        self.served: dict[str, float] = {}
        self._last: dict[str, int] = {}
        self._claims = 0

    def count(self, tenants: Iterable[str]) -> None:
        """Count the jobs of a claim."""
        self._claims += 1
        taken = Counter(tenants)
        level = min(self.served.values(), default=0.0)
        for tenant, jobs in taken.items():
            self.served[tenant] = self.served.get(tenant, level) + jobs / self.weights.get(tenant, 1.0)
            self._last[tenant] = self._claims
        if len(self.served) > len(taken):
            self._forget()

    def _forget(self) -> None:
        oldest = self._claims - max(LEAST_MEMORY, 2 * len(self.served))
        for tenant in [name for name, last in self._last.items() if last < oldest]:
            del self.served[tenant], self._last[tenant]
