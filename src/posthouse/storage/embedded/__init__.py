"""A Postgres that Posthouse starts by itself, in a folder of its own.

The server outlives the process that started it. Three file locks carry the whole protocol, because
the kernel drops them when a process dies, however it dies:

    gate     held for a moment: one process at a time starts, attaches or stops
    users    shared, held by every attached process: whoever gets it alone is the last
    server   held by the server's own processes: free means that none of them is alive
"""

from posthouse.storage.embedded.binaries import Binaries, find_binaries
from posthouse.storage.embedded.server import EmbeddedPostgres, ensure

__all__ = ["Binaries", "EmbeddedPostgres", "ensure", "find_binaries"]
