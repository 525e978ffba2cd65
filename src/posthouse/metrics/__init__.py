"""Prometheus metrics; catalogue.py defines them. Imported only when metrics are used."""
