"""API client of a tenant: triggers, manual runs, events and their outcomes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import httpx

from photos.default_triggers import default_triggers

SECONDS = 30.0


class TenantClient:
    def __init__(self, client: httpx.AsyncClient, name: str, zone: str) -> None:
        self._client = client
        self.name = name
        self.zone = zone
        self.provider_id = ""

    @classmethod
    @asynccontextmanager
    async def all(cls, url: str, key: str, zones: Mapping[str, str]) -> AsyncIterator[list[TenantClient]]:
        """Yield the tenants, with a super-admin key that acts for each of them."""
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(base_url=f"{url}/api/v1", headers=headers, timeout=SECONDS) as client:
            yield [cls(client, name, zone) for name, zone in zones.items()]

    async def register(self) -> None:
        """Create the tenant, so that operators can select it in the console."""
        tenants = await self._request("GET", "/admin/tenants")
        if self.name not in {tenant["id"] for tenant in tenants}:
            await self._request("POST", "/admin/tenants", id=self.name, label=self.name.capitalize())

    async def delete_triggers(self) -> None:
        """Delete existing triggers, each of which would create another job."""
        for trigger in (await self._request("GET", "/jobs/triggers"))["items"]:
            await self._request("DELETE", f"/jobs/triggers/{trigger['id']}")

    async def add_triggers(self) -> None:
        """Create the triggers of a new library, with the nightly sync in the time zone of the tenant."""
        for fields in default_triggers(self.provider_id, self.zone):
            await self._request("POST", "/jobs/triggers", **fields)

    async def next_nightly_sync(self) -> str | None:
        """Return the time of the next nightly sync, as computed by the keeper."""
        triggers = await self._request("GET", "/jobs/triggers")
        times: list[str | None] = [one["next_at"] for one in triggers["items"] if one["cron_expr"]]
        return times[0]

    async def run(self, command: str, **payload: Any) -> str:
        """Enqueue a command; return its correlation id."""
        if command == "photos.sync":
            payload = {"provider_id": self.provider_id, **payload}
        correlation = f"{self.name} {uuid4().hex[:8]}"
        await self._request(
            "POST", "/jobs", definition_key=command, payload=payload, correlation_id=correlation
        )
        return correlation

    async def folder_updated(self, path: str) -> str:
        """Emit an event for a changed folder; return its correlation id."""
        correlation = f"{self.name} {uuid4().hex[:8]}"
        context = {"provider_id": self.provider_id, "folder_path": path}
        await self._request(
            "POST",
            "/events",
            event_name="provider.folder.updated",
            context=context,
            correlation_id=correlation,
        )
        return correlation

    async def output_tails(self) -> str:
        """Return the end of the standard error of the sync commands."""
        jobs = await self._request("GET", "/jobs", kind="photos.sync")
        attempts = [await self._request("GET", f"/jobs/{job['id']}/attempts") for job in jobs["items"]]
        return "".join(str(one["stderr_tail"]) for job_attempts in attempts for one in job_attempts)

    async def _request(self, method: str, path: str, **fields: Any) -> Any:
        body = {"json": fields} if method == "POST" else {}
        query = {"tenant": self.name, **({} if method == "POST" else fields)}
        response = await self._client.request(method, path, params=query, **body)  # type: ignore[arg-type]
        if not response.is_success:
            raise RuntimeError(f"{method} {path} failed with status {response.status_code}: {response.text}")
        return response.json() if response.content else None
