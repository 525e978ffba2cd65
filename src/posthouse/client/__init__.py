"""Clients that enqueue jobs and wait for their results."""
