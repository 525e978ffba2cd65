"""A worker of the crash demo: a single process, so that SIGKILL ends it with everything that it runs."""

from __future__ import annotations

import logging

from posthouse.demo.crash.jobs import app

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    app.run_worker()
