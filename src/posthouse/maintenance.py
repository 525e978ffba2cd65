"""The keeper with the doctor's checks and the delivery of alerts."""

from __future__ import annotations

from collections.abc import Sequence

from posthouse.alerts.delivery import DeliveryWorker
from posthouse.alerts.doctor import DoctorChecks
from posthouse.keeper.keeper import Keeper
from posthouse.keeper.service import KeeperStep
from posthouse.settings import Settings
from posthouse.storage.connections import ReconnectingConnection


class Maintenance:
    """The keeper, the doctor's checks, and the delivery of alerts."""

    def __init__(self, url: str, settings: Settings) -> None:
        self._connection = ReconnectingConnection(url, "keeper")
        self.doctor = DoctorChecks(self._connection, settings)
        self.alert_delivery = DeliveryWorker(url, settings, self._connection)
        self.keeper = Keeper(url, settings, (self.doctor, self.alert_delivery))

    @property
    def steps(self) -> Sequence[KeeperStep]:
        return self.keeper.steps

    async def start(self) -> None:
        await self.keeper.start()

    async def run_once(self) -> dict[str, dict[str, int]]:
        """Run every step once and deliver pending alerts."""
        done = await self.keeper.run_once()
        await self.alert_delivery.deliver()
        return done

    async def stop(self) -> None:
        await self.keeper.stop()
        await self.alert_delivery.stop()
        await self._connection.close()
