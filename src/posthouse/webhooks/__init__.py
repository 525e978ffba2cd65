"""Sends JSON to a URL that somebody configured, and to nothing behind it: no redirects, no private addresses.

Needs no database.
"""
