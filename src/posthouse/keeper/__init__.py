"""The keeper: promotes due jobs, rescues lost ones, creates and drops partitions, raises alerts.

Any number of keepers may run. Each step is safe to repeat and to run concurrently.
"""
