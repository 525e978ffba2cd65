"""posthouse limits: concurrency and rate limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from posthouse.cli.database import read
from posthouse.cli.guarding import UsageError
from posthouse.cli.options import ListGroup, as_usage_error, current_actor, json_option
from posthouse.cli.output import Cell, dim, show_json, show_result, show_table

if TYPE_CHECKING:
    from posthouse.insights import LimitInfo, SlotInfo

limits = typer.Typer(cls=ListGroup, help="List concurrency and rate limits; set and remove them.")

_SLOTS = typer.Option(False, "--slots", help="Usage of each tenant or key, fullest first.")
_COLUMNS = {
    "running": ("max_running",),
    "rate": ("rate", "burst"),
    "burst": ("burst",),
    "kind": ("kinds",),
    "queue": ("queues",),
    "tenant": ("tenants",),
    "weight": ("weights",),
}


@limits.command("list")
def list_(slots: bool = _SLOTS, as_json: bool = json_option()) -> None:
    """List limits and their current usage."""
    from posthouse import insights

    if slots:
        found = read(lambda db, _: insights.limit_slots(db))
        show_json(found) if as_json else _show_slots(found)
        return
    known = read(lambda db, _: insights.limits(db))
    show_json(known) if as_json else _show_limits(known)


def _show_limits(found: list[LimitInfo]) -> None:
    rows = [
        (
            Cell(item.name, "bold"),
            item.per,
            _running(item),
            _rate(item),
            _tokens(item.tokens, item.burst),
            dim(_what(item)),
            dim(item.origin),
        )
        for item in found
    ]
    heads = ("limit", "per", "running", "rate", "tokens", "applies to", "set by")
    show_table(heads, rows, empty="no limits: set one with `posthouse limits set`, or in the code of a job")


def _running(item: LimitInfo) -> Cell:
    """Return the usage and the maximum; of a limit with many slots those of the fullest."""
    if item.max_running is None:
        return Cell(f"{item.in_use}", "dim")
    text = f"{item.highest_usage}/{item.max_running}"
    if item.per != "all":
        text += f", {item.in_use} in total"
    return Cell(text, "yellow" if item.highest_usage >= item.max_running else "")


def _rate(item: LimitInfo) -> str:
    from posthouse.core.limit import shown_rate

    return "" if item.rate is None else shown_rate(item.rate)


def _tokens(tokens: float | None, burst: float | None) -> Cell:
    if tokens is None or burst is None:
        return Cell("")
    return Cell(f"{tokens:.4g}/{burst:.4g}", "yellow" if tokens < 1 else "")


def _what(item: LimitInfo) -> str:
    parts = [
        f"{name} {', '.join(values)}"
        for name, values in (("kind", item.kinds), ("queue", item.queues), ("tenant", item.tenants))
        if values
    ]
    weights = ", ".join(f"{kind}={weight:g}" for kind, weight in item.weights.items() if weight != 1)
    return "; ".join([*parts, *([f"weight {weights}"] if weights else [])]) or "all jobs"


def _show_slots(found: list[SlotInfo]) -> None:
    rows = [
        (
            Cell(item.limit_name, "bold"),
            item.tenant_id or "",
            item.key or "",
            f"{item.in_use}" if item.max_running is None else f"{item.in_use}/{item.max_running}",
            _tokens(item.tokens, item.burst),
        )
        for item in found
    ]
    heads = ("limit", "tenant", "key", "running", "tokens")
    show_table(heads, rows, empty="no limit is in use")


@limits.command("set")
def set_(
    name: str = typer.Argument(..., metavar="NAME", help="Limit name."),
    *,
    running: int | None = typer.Option(
        None, metavar="N", min=0, help="Maximum concurrent jobs; 0 stops all."
    ),
    rate: str | None = typer.Option(
        None, metavar="N/SPAN", help="Maximum starts per time, e.g. 10/s, 100/5m."
    ),
    burst: float | None = typer.Option(
        None, metavar="N", help="Maximum starts at once after an idle time. Default: those of one second."
    ),
    per: str | None = typer.Option(
        None, metavar="all|tenant|key", help="Scope: one limit for all jobs, per tenant, or per key."
    ),
    kind: list[str] = typer.Option([], metavar="KIND", help="Only this kind; repeatable, counted together."),
    queue: list[str] = typer.Option([], metavar="QUEUE", help="Only this queue; repeatable."),
    tenant: list[str] = typer.Option([], metavar="TENANT", help="Only this tenant; repeatable."),
    weight: list[str] = typer.Option(
        [], metavar="KIND=N", help="Tokens that a start of this kind takes from the rate; repeatable."
    ),
    clear: list[str] = typer.Option(
        [], metavar="FIELD", help=f"Field to clear: {', '.join(_COLUMNS)}; repeatable."
    ),
    as_json: bool = json_option(),
) -> None:
    """Create a limit, or change the given fields of one; effective immediately. Audited.

    Running jobs count. Fields set here override those of a limit defined in code.

    [b]Examples:[/b]

    posthouse limits set mailer --kind welcome --kind reminder --running 5 --rate 100/m

    posthouse limits set fair --per tenant --running 20

    posthouse limits set mailer --clear rate
    """
    from posthouse.storage.actions import set_limit

    with as_usage_error():
        fields = _given(
            max_running=running,
            rate=rate,
            burst=burst,
            per=per,
            kinds=kind or None,
            queues=queue or None,
            tenants=tenant or None,
            weights=weight or None,
        )
        fields |= {column: None for field in clear for column in _cleared(field)}
    if not fields:
        raise UsageError(
            "no fields given: pass --running, --rate or another option; see `posthouse limits set --help`"
        )
    done = read(lambda db, _: set_limit(db, name, fields, actor=current_actor()))
    show_result(done, f"{name} set: {_sentence(done)}", as_json=as_json)


def _given(**options: Any) -> dict[str, Any]:
    """Return the fields set by options, as they are stored."""
    from posthouse.core.limit import checked_per, rate_per_second

    fields = {name: value for name, value in options.items() if value is not None}
    if "rate" in fields:
        # Otherwise the limit would keep the burst of the old rate.
        fields = {"burst": None, **fields, "rate": rate_per_second(fields["rate"])}
    if "per" in fields:
        checked_per(fields["per"])
    if "weights" in fields:
        fields["weights"] = dict(_weight(text) for text in fields["weights"])
    return fields


def _cleared(field: str) -> tuple[str, ...]:
    if field not in _COLUMNS:
        raise UsageError(f"invalid --clear {field!r}; expected one of {', '.join(_COLUMNS)}")
    return _COLUMNS[field]


def _weight(text: str) -> tuple[str, float]:
    kind, _, number = text.rpartition("=")
    try:
        if kind:
            return kind, float(number)
    except ValueError:
        pass
    raise UsageError(f"invalid --weight {text!r}: expected KIND=N, e.g. welcome=2")


def _sentence(limit: dict[str, Any]) -> str:
    from posthouse.core.limit import shown_rate

    parts = []
    if limit["max_running"] is not None:
        parts.append(f"at most {limit['max_running']} concurrent")
    if limit["rate"] is not None:
        parts.append(f"{shown_rate(limit['rate'])}, burst {limit['burst']:g}")
    return ", ".join(parts) + ("" if limit["per"] == "all" else f", per {limit['per']}")


@limits.command()
def remove(
    name: str = typer.Argument(..., metavar="NAME", help="Limit name."), as_json: bool = json_option()
) -> None:
    """Remove a limit. A limit defined in code returns when its worker starts. Audited."""
    from posthouse.storage.actions import remove_limit

    read(lambda db, _: remove_limit(db, name, actor=current_actor()))
    show_result({"name": name, "removed": True}, f"{name} removed", as_json=as_json)
