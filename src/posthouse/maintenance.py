"""The keeper with the doctor's rounds and the delivery of alerts."""

from __future__ import annotations

from collections.abc import Sequence

from posthouse.alerts.delivery import DeliveryWorker
from posthouse.alerts.doctor import Rounds
from posthouse.keeper.keeper import Keeper
from posthouse.keeper.service import Step
from posthouse.settings import Settings
from posthouse.storage.connections import ReconnectingConnection


class Housekeeping:
    """The keeper, the doctor's rounds, and the delivery of alerts."""

    def __init__(self, url: str, settings: Settings) -> None:
        self._line = ReconnectingConnection(url, "keeper")
        self.rounds = Rounds(self._line, settings)
        self.courier = DeliveryWorker(url, settings, self._line)
        self.keeper = Keeper(url, settings, (self.rounds, self.courier))

    @property
    def steps(self) -> Sequence[Step]:
        return self.keeper.steps

    async def start(self) -> None:
        await self.keeper.start()

    async def run_once(self) -> dict[str, dict[str, int]]:
        """Run every step once and deliver pending alerts."""
        done = await self.keeper.run_once()
        await self.courier.deliver()
        return done

    async def stop(self) -> None:
        await self.keeper.stop()
        await self.courier.stop()
        await self._line.close()
