"""Run jobs: fetcher -> executor -> completer, with the heartbeat in a separate thread."""
