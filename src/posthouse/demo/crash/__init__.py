"""`posthouse demo crash`: jobs that write rows while workers and Postgres are killed.

It runs on its own temporary embedded Postgres and ends with a count of the rows: one per job, none doubled.
"""

from posthouse.demo.crash.report import DemoReport
from posthouse.demo.crash.run import run

__all__ = ["DemoReport", "run"]
