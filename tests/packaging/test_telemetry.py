"""No dependency sends usage data."""

import subprocess
import sys

import pytest

OPEN_FILES = """
import os, {app}, onnxruntime
for name in os.listdir("/proc/self/fd"):
    try:
        print(os.readlink(f"/proc/self/fd/{{name}}"))
    except FileNotFoundError:
        pass
"""


@pytest.mark.parametrize("app", ["embeddings", "vision"])
def test_onnxruntime_keeps_no_events_to_send(app):
    """It opens a database of them when it is imported, unless it was told not to."""
    found = subprocess.run(
        [sys.executable, "-c", OPEN_FILES.format(app=app)], capture_output=True, text=True, check=True
    )
    assert "onnxruntime.db" not in found.stdout
