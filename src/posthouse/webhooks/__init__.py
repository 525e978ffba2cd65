"""Sends JSON to configured URLs. Does not follow redirects or connect to private addresses.

Needs no database.
"""
