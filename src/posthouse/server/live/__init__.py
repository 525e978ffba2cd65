"""Event streams of changes.

One poll of the database serves all clients (watcher.py). Events are filtered by the permissions and the
request of each client (subscriptions.py), and sent as Server-Sent Events (routes/live.py).
"""

from posthouse.server.live.publisher import Publisher
from posthouse.server.live.streams import Subscriptions
from posthouse.server.live.subscriptions import EVENTS, StreamFilter

__all__ = ["EVENTS", "Publisher", "StreamFilter", "Subscriptions"]
