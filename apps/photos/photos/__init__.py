"""A photo library on the command line, and the definitions that run it as jobs.

The commands know nothing of jobs, and nothing of Posthouse is loaded for them; the application is in
``photos.jobs``.
"""
