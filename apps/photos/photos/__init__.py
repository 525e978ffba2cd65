"""A photo library on the command line, and the definitions that run it as jobs.

The commands do not import Posthouse; the application is in ``photos.jobs``.
"""
