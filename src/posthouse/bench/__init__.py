"""What Posthouse does on this machine, measured side by side in one run.

Rates come from the database's own times, and every ratio from one run: machines are noisy, and a number
alone says little. All of it runs with Postgres' default durability.
"""
