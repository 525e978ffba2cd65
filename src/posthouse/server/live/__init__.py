"""Live streams: one look at the database for all that look on (watcher.py), handed to each as far as it may
see and wants to (subscription.py), and written as Server-Sent Events (stream.py).
"""

from posthouse.server.live.streams import Streams
from posthouse.server.live.wanted import EVENTS, Wanted

__all__ = ["EVENTS", "Streams", "Wanted"]
