"""Metrics for Prometheus: catalogue.py says which. Nothing here is imported unless it is asked for."""
