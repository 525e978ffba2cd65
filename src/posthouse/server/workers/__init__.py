"""Requests of remote workers to this server: register, claim jobs and report about them."""
