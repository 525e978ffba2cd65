"""The control plane: an HTTP API over the one read side and the one set of controls.

``create_app`` gives an ASGI application: run it with ``posthouse server``, or mount it into yours. Routes of
applications say with ``allow`` who may use them, and get an ``Access``: who asks, and transactions that see
what they may see. One that takes files reads them with ``file_body``.
"""

from posthouse.identity import Permission
from posthouse.server.access import Access, allow
from posthouse.server.app import create_app
from posthouse.server.bodies import file_body

__all__ = ["Access", "Permission", "allow", "create_app", "file_body"]
