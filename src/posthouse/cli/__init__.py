"""The command line: one module for each group of commands, and the child processes of the supervisor.

Commands import what they need when they run, so that --help is fast. Child processes do not import the
commands, because that would take a tenth of their start.
"""
