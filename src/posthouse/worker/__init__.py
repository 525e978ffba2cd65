"""Runs jobs: fetcher -> executor -> completer, with the heartbeat beside them in a thread of its own."""
