"""The first screen of `posthouse up`: where it is, what runs, what to try, how to stop it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from posthouse.cli.output import say

WIDTH = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """What the first screen shows."""

    address: str
    admin_key: str | None
    """Only on the first start."""
    console: str | None
    """A link that logs a browser in once; only for this machine."""
    apps: str | None
    """The same for the page of the applications; None without applications."""
    running: str
    tries: Sequence[tuple[str, str]]
    """Commands, each after what it does."""
    data: str

    def show(self) -> None:
        """Print one block on stdout. Programs read its first lines: the address and the admin key."""
        say(f"Posthouse is ready: {self.address}", style="bold green")
        if self.admin_key is not None:
            say(f"Admin key, shown only once: {self.admin_key}")
        say("")
        if self.console is not None:
            _row("Console", self.console)
            if self.apps is not None:
                _row("Apps", self.apps)
            _row("", "each link logs you in once and expires in 10 minutes", dim=True)
        _row("Running", self.running)
        width = max(len(purpose) for purpose, _ in self.tries) + 1
        for number, (purpose, command) in enumerate(self.tries):
            _row("" if number else "Try", f"{purpose + ':':<{width}}  {command}")
        _row("Data", self.data)
        _row("Stop", "Ctrl-C")
        sys.stdout.flush()


def _row(label: str, text: str, *, dim: bool = False) -> None:
    say(f"  {label:<{WIDTH}}", style="bold", end="")
    say(text, style="dim" if dim else "")
