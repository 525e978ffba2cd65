"""The control plane: an HTTP API over the one read side and the one set of controls.

``create_app`` gives an ASGI application: run it with ``posthouse server``, or mount it into yours.
"""

from posthouse.server.app import create_app

__all__ = ["create_app"]
