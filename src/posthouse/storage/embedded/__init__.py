"""A Postgres server that Posthouse starts itself, in a data directory of its own.

The server outlives the process that started it. Processes coordinate through three file locks, because
the kernel releases a lock when its process dies, for any reason:

    gate     held briefly: one process at a time starts, attaches to or stops the server
    users    shared by all attached processes: a process that gets it exclusively is the last one
    server   held by the processes of the server: free means that none of them is alive
"""

from posthouse.storage.embedded.binaries import Binaries, find_binaries
from posthouse.storage.embedded.server import EmbeddedPostgres, admin_url_of, attach_server, running_url

__all__ = ["Binaries", "EmbeddedPostgres", "admin_url_of", "attach_server", "find_binaries", "running_url"]
