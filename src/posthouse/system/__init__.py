"""What a process does beside its jobs: the keeper, the doctor's rounds, and Posthouse's own jobs.

Stands above the keeper and the worker, which know nothing of each other.
"""
