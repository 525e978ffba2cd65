"""posthouse alerts: list alerts and test their delivery."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from posthouse.cli.database import read, read_at
from posthouse.cli.guarding import UsageError
from posthouse.cli.options import ListGroup, as_usage_error, json_option
from posthouse.cli.output import (
    Cell,
    count,
    dim,
    first_line,
    format_age,
    print_line,
    show_json,
    show_table,
    status,
)

if TYPE_CHECKING:
    from posthouse.alerts.webhook import WebhookSender
    from posthouse.core.alerts import Destination
    from posthouse.insights import AlertInfo
    from posthouse.settings import Settings

alerts = typer.Typer(cls=ListGroup, help="List and test alerts.")


@alerts.command("list")
def list_(
    *,
    type_: str | None = typer.Option(
        None, "--type", metavar="TYPE", help="Only this type, e.g. queue_stuck."
    ),
    tenant: str | None = typer.Option(None, help="Only this tenant."),
    since: str | None = typer.Option(None, metavar="SPAN", help="Only alerts from this period, e.g. 2h, 7d."),
    limit: int = typer.Option(50, help="Maximum number of rows (up to 1000).", show_default=True),
    as_json: bool = json_option(),
) -> None:
    """List alerts, newest first, with the state of their deliveries.

    [b]Examples:[/b]

    posthouse alerts list --since 1h

    posthouse alerts list --type queue_stuck --json | jq -r '.[].message'
    """
    from posthouse import insights
    from posthouse.core.duration import seconds

    with as_usage_error():
        within = None if since is None else seconds(since)
        chosen = insights.AlertFilter(type=type_, tenant=tenant, within=within, limit=limit)

    found, now = read_at(lambda db, _: insights.list_alerts(db, chosen))
    if as_json:
        show_json(found)
        return
    rows = [
        (
            dim(format_age(alert.at, now)),
            status(alert.severity),
            Cell(alert.type, "bold"),
            alert.subject,
            _what_became(alert),
            first_line(alert.message, 100),
        )
        for alert in found
    ]
    heads = ("when", "severity", "type", "subject", "state", "message")
    show_table(heads, rows, empty="no alerts")


def _what_became(alert: AlertInfo) -> Cell:
    messages = [f"{item['destination']} {item['state']}" for item in alert.deliveries]
    failed = any(item["state"] == "failed" for item in alert.deliveries)
    text = ", ".join(messages) or alert.state
    if alert.suppressed_count:
        text += f", {alert.suppressed_count:,} more suppressed"
    return Cell(text, "red" if failed else "" if alert.state == "posted" else "dim")


@alerts.command()
def counts(as_json: bool = json_option()) -> None:
    """Count alerts by type: raised, suppressed by the cool-down, deliveries sent and failed."""
    from posthouse import insights

    found = read(lambda db, _: insights.alert_counts(db))
    if as_json:
        show_json(found)
        return
    rows = [
        (
            Cell(item.type, "bold"),
            count(item.raised),
            count(item.suppressed),
            count(item.sent, "green"),
            count(item.failed, "red"),
        )
        for item in found
    ]
    heads = ("type", "raised", "suppressed", "sent", "failed")
    show_table(heads, rows, empty="", right=heads[1:])


@alerts.command("test")
def send_test(
    destination: list[str] = typer.Argument(
        None, metavar="NAME", help="Destinations to test (default: all)."
    ),
    as_json: bool = json_option(),
) -> None:
    """Send a test alert to every destination and print each response.

    Exits with 1 if a delivery fails. Needs no database.

    [b]Example:[/b]  POSTHOUSE_ALERT_WEBHOOK_URL=https://ops.example.com/hook posthouse alerts test
    """
    import asyncio

    from posthouse.alerts.webhook import WebhookSender
    from posthouse.settings import load_settings

    settings = load_settings()
    sender = WebhookSender(settings)
    answers = asyncio.run(_test(sender, _chosen(sender, destination)))
    if as_json:
        show_json(answers)
    else:
        for answer in answers:
            _say(answer, settings)
    if not all(answer["ok"] for answer in answers):
        raise typer.Exit(1)


def _chosen(sender: WebhookSender, names: list[str] | None) -> list[Destination]:
    if not sender.destinations:
        raise UsageError("no alert destination is configured: set POSTHOUSE_ALERT_WEBHOOK_URL")
    for name in names or ():
        if name not in sender.destinations:
            known = ", ".join(sender.destinations)
            raise UsageError(f"unknown alert destination {name!r}; configured: {known}")
    return [sender.destinations[name] for name in names or sender.destinations]


async def _test(sender: WebhookSender, chosen: list[Destination]) -> list[dict[str, Any]]:
    import asyncio

    return await asyncio.gather(*(_test_one(sender, destination) for destination in chosen))


async def _test_one(sender: WebhookSender, destination: Destination) -> dict[str, Any]:
    from datetime import UTC
    from uuid import uuid4

    from posthouse.alerts.http_post import WebhookError
    from posthouse.alerts.webhook import AlertMessage

    message = AlertMessage(
        id=str(uuid4()),
        type="test",
        severity="info",
        at=datetime.now(UTC),
        tenant_id=None,
        subject="test",
        message="This is a test alert from Posthouse.",
        suppressed_count=0,
        details={},
    )
    known = {"destination": destination.name, "shape": destination.shape.value}
    try:
        answer = await sender.send(message, destination)
    except WebhookError as error:
        return {**known, "ok": False, "error": str(error)}
    return {**known, "ok": True, "status": answer.status, "answer": answer.body, "seconds": answer.seconds}


def _say(answer: dict[str, Any], settings: Settings) -> None:
    name = f"{answer['destination']} ({answer['shape']})"
    if answer["ok"]:
        said = f": {answer['answer']}" if answer["answer"] else ""
        signed = ", signed" if settings.alert_webhook_secret else ""
        print_line(f"{name}: responded {answer['status']} in {answer['seconds'] * 1000:.0f} ms{signed}{said}")
    else:
        print_line(f"{name}: {answer['error']}", style="red")
