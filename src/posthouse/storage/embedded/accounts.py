"""The user that the server runs as. Postgres refuses to run as root."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from posthouse.errors import ConfigurationError, EmbeddedUnavailable
from posthouse.storage.embedded.binaries import copy_for_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from posthouse.storage.embedded.binaries import Binaries
    from posthouse.storage.embedded.layout import Layout

ROOT = 0
# Users that exist on most systems and own little else.
UNPRIVILEGED = ("postgres", "nobody")


class AccountIds(NamedTuple):
    user: int
    group: int


@dataclass(frozen=True, slots=True)
class Account:
    name: str
    prefix: tuple[str, ...] = ()
    switch_to: AccountIds | None = None

    @property
    def files(self) -> AccountIds:
        return self.switch_to or AccountIds(os.geteuid(), os.getegid())

    def run(self, command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command as this account, not in this process's working directory and Postgres settings."""
        return subprocess.run(  # noqa: S603 - the programs are ours, the arguments are a list
            [*self.prefix, *command],
            cwd="/",
            env=_clean_environment(),
            text=True,
            check=False,
            **self._switch(),
            **options,
        )

    def can(self, command: Sequence[str]) -> bool:
        try:
            return self.run(command, capture_output=True).returncode == 0
        except OSError:
            return False

    def own(self, path: Path) -> None:
        """Change the owner of a file, or of a folder and its content, to this account."""
        if path.lstat().st_uid == self.files.user:
            return
        for each in (path, *path.rglob("*")):
            os.chown(each, *self.files, follow_symlinks=False)

    def _switch(self) -> dict[str, Any]:
        if self.switch_to is None:
            return {}
        user, group = self.switch_to
        return {"user": user, "group": group, "extra_groups": []}


def choose_account(layout: Layout, binaries: Binaries, run_as: str | None = None) -> tuple[Account, Binaries]:
    """Return the first account that can run the server here, and binaries that it can read."""
    tried = []
    for account in _candidates(layout, run_as):
        readable = _prepare(account, layout, binaries)
        if readable is not None:
            return account, readable
        tried.append(account.name)
    raise EmbeddedUnavailable(
        f"no account can run the embedded Postgres in {layout.root} "
        f"(tried: {', '.join(tried) or 'none'}). Postgres does not run as root; it needs a user who "
        "has a name and can run its programs and enter that folder. Set POSTHOUSE_DATA_DIR to a folder "
        "such as /var/lib/posthouse, run as another user, or set POSTHOUSE_DATABASE_URL."
    )


def can_enter_parent(layout: Layout) -> bool:
    """Whether any account that could run the server can enter the parent of this folder."""
    return any(_can_enter(account, layout.root.parent) for account in _candidates(layout, run_as=None))


def _can_enter(account: Account, folder: Path) -> bool:
    return account.can(["sh", "-c", 'test -x "$1"', "sh", str(folder)])


def _candidates(layout: Layout, run_as: str | None) -> Iterator[Account]:
    if run_as is not None:
        yield _named(run_as)
    elif os.geteuid() != ROOT:
        yield from _as_ourselves()
    elif layout.cluster.exists() and layout.cluster.stat().st_uid != ROOT:
        # The owner of the files runs the server.
        owner = layout.cluster.stat()
        yield Account(name=f"user {owner.st_uid}", switch_to=AccountIds(owner.st_uid, owner.st_gid))
    else:
        yield from _instead_of_root()


def _as_ourselves() -> Iterator[Account]:
    # initdb requires a user with a name. In containers the user may be only a number.
    if any(user.pw_uid == os.geteuid() for user in pwd.getpwall()):
        yield Account(name="this user")
    else:
        yield from _in_namespace()


def _instead_of_root() -> Iterator[Account]:
    yield from _in_namespace()
    known = {user.pw_name: user for user in pwd.getpwall()}
    yield from (_user(known[name]) for name in UNPRIVILEGED if name in known)


def _in_namespace() -> Iterator[Account]:
    """Yield a user namespace: user and file ownership stay the same, but Postgres sees a named user."""
    unshare = shutil.which("unshare")
    seen_as = next((user for user in pwd.getpwall() if user.pw_uid != ROOT), None)
    if unshare and seen_as:
        mapping = (f"--map-user={seen_as.pw_uid}", f"--map-group={seen_as.pw_gid}")
        yield Account(name="a user namespace", prefix=(unshare, "--user", *mapping))


def _named(name: str) -> Account:
    try:
        user = pwd.getpwnam(name)
    except KeyError:
        raise ConfigurationError(f"cannot run Postgres as user {name!r}: the user does not exist") from None
    if os.geteuid() not in (ROOT, user.pw_uid):
        raise ConfigurationError(f"cannot run Postgres as user {name!r}: only root can do that")
    return _user(user)


def _user(user: pwd.struct_passwd) -> Account:
    # Only root can switch users, even to itself: group lists are privileged.
    ids = AccountIds(user.pw_uid, user.pw_gid) if os.geteuid() == ROOT else None
    return Account(name=user.pw_name, switch_to=ids)


def _prepare(account: Account, layout: Layout, binaries: Binaries) -> Binaries | None:
    if account.switch_to is not None:
        # The account needs to pass through this folder only; its content stays private. The folders above it
        # are not changed.
        layout.root.chmod(layout.root.stat().st_mode | 0o011)
    if not _can_enter(account, layout.root):
        return None
    if _runs(account, binaries):
        return binaries
    if os.geteuid() != ROOT:
        return None
    copied = copy_for_all(binaries, layout.binaries)
    return copied if _runs(account, copied) else None


def _runs(account: Account, binaries: Binaries) -> bool:
    return account.can([binaries.program("initdb"), "--version"])


def _clean_environment() -> dict[str, str]:
    """Return our environment without settings of Postgres (PGPORT, PGDATA ...), and messages in English."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
    return {**kept, "LC_ALL": "C"}
