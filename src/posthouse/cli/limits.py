"""posthouse limits: how many jobs may run at a time or start in a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from posthouse.cli.options import WrongUsage, caller, checked_usage, json_option
from posthouse.cli.output import Cell, dim, say, show_json, show_table

if TYPE_CHECKING:
    from posthouse.insights import LimitInfo, SlotInfo

limits = typer.Typer(
    invoke_without_command=True, help="Limits on how many jobs run at a time or start in a time."
)

_SLOTS = typer.Option(False, "--slots", help="Each tenant's or key's count by itself, the fullest first.")
_COLUMNS = {
    "running": ("max_running",),
    "rate": ("rate", "burst"),
    "burst": ("burst",),
    "kind": ("kinds",),
    "queue": ("queues",),
    "tenant": ("tenants",),
    "weight": ("weights",),
}


@limits.callback()
def list_unless_told(context: typer.Context, slots: bool = _SLOTS, as_json: bool = json_option()) -> None:
    """Limits on how many jobs run at a time or start in a time. Alone it lists them."""
    if context.invoked_subcommand is None:
        _list(slots=slots, as_json=as_json)


@limits.command("list")
def list_(slots: bool = _SLOTS, as_json: bool = json_option()) -> None:
    """List the limits and how full they are now."""
    _list(slots=slots, as_json=as_json)


def _list(*, slots: bool, as_json: bool) -> None:
    from posthouse import insights
    from posthouse.cli.session import read

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
    heads = ("limit", "per", "running", "rate", "tokens", "counts", "set by")
    show_table(heads, rows, empty="no limits: set one with `posthouse limits set`, or in the code of a job")


def _running(item: LimitInfo) -> Cell:
    """In use and the most; of a limit with many slots those of the fullest."""
    if item.max_running is None:
        return Cell(f"{item.in_use}", "dim")
    text = f"{item.fullest}/{item.max_running}"
    if item.per != "all":
        text += f", {item.in_use} in all"
    return Cell(text, "yellow" if item.fullest >= item.max_running else "")


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
    show_table(heads, rows, empty="no limit counts anything now")


@limits.command("set")
def set_(
    name: str = typer.Argument(..., metavar="NAME", help="The limit's name."),
    *,
    running: int | None = typer.Option(None, metavar="N", min=0, help="So many run at a time; 0: none."),
    rate: str | None = typer.Option(None, metavar="N/SPAN", help="So many start in a time: 10/s, 100/5m."),
    burst: float | None = typer.Option(
        None, metavar="N", help="So many may start at once after a quiet time. Default: those of a second."
    ),
    per: str | None = typer.Option(
        None, metavar="all|tenant|key", help="Count all together, each tenant or each key by itself."
    ),
    kind: list[str] = typer.Option([], metavar="KIND", help="Only this kind; several count together."),
    queue: list[str] = typer.Option([], metavar="QUEUE", help="Only this queue; several times."),
    tenant: list[str] = typer.Option([], metavar="TENANT", help="Only this tenant; several times."),
    weight: list[str] = typer.Option(
        [], metavar="KIND=N", help="One start of this kind counts as N in the rate; several times."
    ),
    clear: list[str] = typer.Option(
        [], metavar="FIELD", help=f"Take a part of it away: {', '.join(_COLUMNS)}; several times."
    ),
    as_json: bool = json_option(),
) -> None:
    """Make a limit, or change the named parts of one. It takes effect at once. Audited.

    Jobs that run already count. A limit that comes from the code keeps what is set here.

    [b]Examples:[/b]

    posthouse limits set mailer --kind welcome --kind reminder --running 5 --rate 100/m

    posthouse limits set fair --per tenant --running 20

    posthouse limits set mailer --clear rate
    """
    from posthouse.cli.session import read
    from posthouse.storage.control import set_limit

    with checked_usage():
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
        raise WrongUsage("nothing to set: give --running, --rate or another option; see --help")
    done = read(lambda db, _: set_limit(db, name, fields, actor=caller()))
    if as_json:
        show_json(done)
    else:
        say(f"{name} set: {_sentence(done)}")


def _given(**options: Any) -> dict[str, Any]:
    """The fields that options set, as they are stored."""
    from posthouse.core.limit import checked_per, rate_per_second

    fields = {name: value for name, value in options.items() if value is not None}
    if "rate" in fields:
        # Without a burst that of the old rate would stay.
        fields = {"burst": None, **fields, "rate": rate_per_second(fields["rate"])}
    if "per" in fields:
        checked_per(fields["per"])
    if "weights" in fields:
        fields["weights"] = dict(_weight(text) for text in fields["weights"])
    return fields


def _cleared(field: str) -> tuple[str, ...]:
    if field not in _COLUMNS:
        raise WrongUsage(f"--clear takes one of {', '.join(_COLUMNS)}, not {field!r}")
    return _COLUMNS[field]


def _weight(text: str) -> tuple[str, float]:
    kind, _, number = text.rpartition("=")
    try:
        if kind:
            return kind, float(number)
    except ValueError:
        pass
    raise WrongUsage(f"--weight is like welcome=2, not {text!r}")


def _sentence(limit: dict[str, Any]) -> str:
    from posthouse.core.limit import shown_rate

    parts = []
    if limit["max_running"] is not None:
        parts.append(f"at most {limit['max_running']} at a time")
    if limit["rate"] is not None:
        parts.append(f"{shown_rate(limit['rate'])}, {limit['burst']:g} at once")
    return ", ".join(parts) + ("" if limit["per"] == "all" else f", per {limit['per']}")


@limits.command()
def remove(
    name: str = typer.Argument(..., metavar="NAME", help="The limit's name."), as_json: bool = json_option()
) -> None:
    """Remove a limit. One that comes from the code is back when a worker with it starts. Audited."""
    from posthouse.cli.session import read
    from posthouse.storage.control import remove_limit

    read(lambda db, _: remove_limit(db, name, actor=caller()))
    if as_json:
        show_json({"name": name, "removed": True})
    else:
        say(f"{name} removed")
