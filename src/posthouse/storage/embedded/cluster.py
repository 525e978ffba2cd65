"""Create the cluster: the files of an empty Postgres."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from posthouse.errors import EmbeddedUnavailable
from posthouse.storage.embedded.state import ADMIN, sync_folder

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from posthouse.storage.embedded.accounts import Account
    from posthouse.storage.embedded.binaries import Binaries
    from posthouse.storage.embedded.layout import Layout


def make(layout: Layout, account: Account, binaries: Binaries, password: str, *, durable: bool) -> None:
    """Create the cluster beside its final place, then rename it: an incomplete one is never used."""
    shutil.rmtree(layout.unfinished_cluster, ignore_errors=True)
    layout.unfinished_cluster.mkdir(mode=0o700)
    account.own(layout.unfinished_cluster)
    with _password_file(layout, account, password):
        _initdb(layout, account, binaries, durable=durable)
    layout.unfinished_cluster.rename(layout.cluster)
    sync_folder(layout.root)


def check_version(layout: Layout, binaries: Binaries) -> None:
    try:
        found = (layout.cluster / "PG_VERSION").read_text().strip()
    except OSError as error:
        raise EmbeddedUnavailable(
            f"cannot read the Postgres cluster in {layout.cluster}: {error.strerror}. "
            "Restore it from a backup, or use another data directory."
        ) from error
    if found != str(binaries.major):
        raise EmbeddedUnavailable(
            f"the cluster in {layout.cluster} was created by Postgres {found}, but Postgres "
            f"{binaries.major} is installed. Migrate the data with pg_upgrade or with pg_dump and psql, "
            "or use another data directory."
        )


@contextmanager
def _password_file(layout: Layout, account: Account, password: str) -> Iterator[None]:
    path = layout.password_file
    path.unlink(missing_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(fd, "w") as file:
            file.write(password)
        account.own(path)
        yield
    finally:
        path.unlink()


def _initdb(layout: Layout, account: Account, binaries: Binaries, *, durable: bool) -> None:
    result = _run_initdb(layout, account, binaries, "C.UTF-8", durable=durable)
    if result.returncode and "locale" in result.stderr:
        # The system has no C.UTF-8 locale. Sort order and letter case come from Postgres itself.
        result = _run_initdb(layout, account, binaries, "C", durable=durable)
    if result.returncode:
        raise EmbeddedUnavailable(
            f"initdb could not create the embedded Postgres in {layout.root}:\n{result.stderr.strip()}"
        )


def _run_initdb(
    layout: Layout, account: Account, binaries: Binaries, locale: str, *, durable: bool
) -> subprocess.CompletedProcess[str]:
    return account.run(
        [
            binaries.program("initdb"),
            f"--pgdata={layout.unfinished_cluster}",
            f"--username={ADMIN}",
            f"--pwfile={layout.password_file}",
            "--auth=scram-sha-256",
            # Iterations protect guessable passwords. This one is random, and they cost 4 ms per connection.
            "--set=scram_iterations=1",
            "--encoding=UTF8",
            # Built into Postgres: indexes stay valid when the C library of the system changes.
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            f"--locale={locale}",
            "--no-instructions",
            *([] if durable else ["--no-sync"]),
        ],
        capture_output=True,
    )
