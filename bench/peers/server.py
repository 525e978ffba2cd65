"""One throw-away database per peer on the given server."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote, urlencode

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

TLS_PARAMETERS = ("sslmode", "sslrootcert")


@contextmanager
def own_database(server_url: str, peer_name: str) -> Iterator[str]:
    """Make a database for this peer, give its URL, drop it afterwards."""
    # The process id keeps two runs on one server apart.
    name = f"posthouse_bench_{peer_name.replace('-', '_')}_{os.getpid()}"
    with psycopg.connect(server_url, autocommit=True) as server:
        server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        url = _url_of(server, server_url, name)
    try:
        yield url
    finally:
        # A new connection: the first would have been idle, and might be gone.
        with psycopg.connect(server_url, autocommit=True) as server:
            drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
            server.execute(drop.format(sql.Identifier(name)))


def _url_of(server: psycopg.Connection, server_url: str, database: str) -> str:
    """A URL that all five libraries read alike, for a socket folder too."""
    info = server.info
    login = quote(info.user, safe="")
    if info.password:
        login += f":{quote(info.password, safe='')}"
    parameters = conninfo_to_dict(server_url)
    kept = [(name, str(parameters[name])) for name in TLS_PARAMETERS if name in parameters]
    query = f"?{urlencode(kept)}" if kept else ""
    return f"postgresql://{login}@{quote(info.host, safe='')}:{info.port}/{database}{query}"
