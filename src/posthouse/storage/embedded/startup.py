"""Starting the server until it answers, and stopping it."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from posthouse.errors import DatabaseUnavailable, EmbeddedUnavailable
from posthouse.storage.embedded import accounts, cluster, ports, process, state, tuning
from posthouse.storage.embedded.binaries import find_binaries
from posthouse.storage.embedded.probe import Answer, ask
from posthouse.storage.embedded.state import State
from posthouse.storage.embedded.waiting import attempts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from posthouse.storage.embedded.accounts import Account
    from posthouse.storage.embedded.binaries import Binaries
    from posthouse.storage.embedded.layout import Layout


# Another program can take the port between our check and the start of the server.
PORT_TRIES = 5


@dataclass(frozen=True, slots=True)
class Options:
    settings: Mapping[str, str] = field(default_factory=dict)
    run_as: str | None = None
    report: Callable[[str], None] = lambda _step: None
    timeout: float = 120.0


def bring_up(layout: Layout, options: Options) -> Answer:
    """Attach to the server, or start it. The caller holds the gate."""
    answer = _await_answer(layout, options.timeout) or _start(layout, options)
    options.report("ready")
    return answer


def shut_down(layout: Layout, timeout: float) -> None:
    """Stop the server and wait until its last process has ended. The caller holds the gate."""
    told = False
    for _ in attempts(timeout):
        if not process.is_alive(layout):
            return
        if not told and (answer := ask(layout)):
            os.kill(answer.postmaster_pid, signal.SIGINT)
            told = True
    raise DatabaseUnavailable(_with_log(layout, f"the embedded Postgres did not stop within {timeout:g} s."))


def _await_answer(layout: Layout, timeout: float) -> Answer | None:
    """Wait while the server is alive: it may be recovering, stopping or busy. Return None if it is not."""
    for _ in attempts(timeout):
        if not process.is_alive(layout):
            return None
        if answer := ask(layout):
            return answer
    raise DatabaseUnavailable(
        _with_log(
            layout,
            f"the embedded Postgres in {layout.root} is running but did not answer within {timeout:g} s. "
            "If it is recovering from a crash, try again later.",
        )
    )


def _start(layout: Layout, options: Options) -> Answer:
    settings = tuning.server_settings(options.settings)
    account, binaries = accounts.choose(layout, find_binaries(), options.run_as)
    _ensure_cluster(layout, account, binaries, settings, options)
    options.report("starting")
    for _ in range(PORT_TRIES):
        port = _settle_port(layout)
        process.launch(layout, account, binaries, port, settings)
        if answer := _await_answer(layout, options.timeout):
            return answer
        if ports.is_free(port):
            break
    message = f"the embedded Postgres in {layout.root} did not start."
    raise DatabaseUnavailable(_with_log(layout, message))


def _ensure_cluster(
    layout: Layout,
    account: Account,
    binaries: Binaries,
    settings: Mapping[str, str],
    options: Options,
) -> None:
    if layout.cluster.exists():
        cluster.check_version(layout, binaries)
        return
    options.report("initialising")
    known = State(ports.choose(), state.new_password(), state.new_password())
    state.save(layout.state_file, known)
    durable = settings["fsync"] != "off"
    cluster.make(layout, account, binaries, known.admin_password, durable=durable)


def _settle_port(layout: Layout) -> int:
    """Return the port of the last start if it is still free, else a new one, and save it."""
    known = state.load(layout.state_file)
    if known is None:
        raise EmbeddedUnavailable(
            f"{layout.state_file} is missing; it contains the passwords of the embedded Postgres. "
            "Restore it from a backup, or use another data directory."
        )
    if not ports.is_free(known.port):
        known = replace(known, port=ports.choose())
        state.save(layout.state_file, known)
    return known.port


def _with_log(layout: Layout, message: str) -> str:
    return (
        f"{message}\nThe last lines of {layout.log_file}:\n{process.log_tail(layout)}\n"
        "Fix the reported problem, or set POSTHOUSE_DATABASE_URL to use another Postgres."
    )
