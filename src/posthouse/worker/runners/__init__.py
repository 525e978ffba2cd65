"""Where handlers run apart from the event loop: threads, job processes and commands."""
