"""A pgbouncer in transaction mode before the Postgres of the tests."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from support.waiting import WAIT_SECONDS, eventually_sync

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
CONFIG = """
[databases]
* = {target}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 5
max_client_conn = 500
ignore_startup_parameters = extra_float_digits,options
"""


class PgBouncer:
    """A pgbouncer in front of one server."""

    def __init__(self, server, folder):
        self._port = free_port()
        account = _unprivileged_user()
        config = folder / "pgbouncer.ini"
        config.write_text(CONFIG.format(target=_target(server), port=self._port))
        if account is not None:
            shutil.chown(folder, account)
            shutil.chown(config, account)
        self._process = subprocess.Popen([PGBOUNCER, "-q", str(config)], user=account)
        eventually_sync(self._answers, what="an answer of pgbouncer")

    def url_for(self, url):
        parts = conninfo_to_dict(url)
        return make_conninfo(host="127.0.0.1", port=self._port, dbname=parts["dbname"], user="any")

    def close(self):
        self._process.terminate()
        self._process.wait(WAIT_SECONDS)

    def _answers(self):
        assert self._process.poll() is None, "pgbouncer did not start"
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def _unprivileged_user():
    """Who runs it: pgbouncer refuses to be root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


def _target(server):
    parts = conninfo_to_dict(server)
    wanted = {name: parts[name] for name in ("host", "port", "user", "password") if parts.get(name)}
    return " ".join(f"{name}={value}" for name, value in wanted.items())


@contextmanager
def running_pgbouncer(server):
    # Not in pytest's own folder: only its owner may read that one.
    with tempfile.TemporaryDirectory(prefix="posthouse-pgbouncer-") as folder:
        pooler = PgBouncer(server, Path(folder))
        try:
            yield pooler
        finally:
            pooler.close()
