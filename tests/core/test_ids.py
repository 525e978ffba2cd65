"""Ids that the caller makes."""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from uuid import RFC_4122

from posthouse.core.ids import new_id


def moment(job_id):
    """The bits that carry time: 48 of milliseconds, 12 below them."""
    return (job_id.int >> 80, (job_id.int >> 64) & 0xFFF)


def test_an_id_is_a_uuid_of_version_7():
    job_id = new_id()
    assert job_id.version == 7
    assert job_id.variant == RFC_4122


def test_an_id_tells_when_it_was_made():
    before = time.time_ns() // 1_000_000
    job_id = new_id()
    assert before <= job_id.int >> 80 <= time.time_ns() // 1_000_000


def test_ids_of_one_process_sort_by_age():
    ids = [new_id() for _ in range(20_000)]
    assert [moment(job_id) for job_id in ids] == sorted(moment(job_id) for job_id in ids)


def test_ids_are_unique_over_threads():
    with ThreadPoolExecutor(8) as pool:
        batches = pool.map(lambda _: [new_id() for _ in range(5_000)], range(8))
        ids = [job_id for batch in batches for job_id in batch]
    assert len(set(ids)) == 40_000


def test_ids_are_unique_over_processes_that_were_forked():
    code = (
        "import os\n"
        "from posthouse.core.ids import new_id\n"
        "new_id()\n"
        "for _ in range(3): os.fork()\n"
        "text = ''.join(f'{new_id()}\\n' for _ in range(500))\n"
        "os.write(1, text.encode())\n"
        "if os.getpid(): \n"
        "    try:\n"
        "        while True: os.wait()\n"
        "    except ChildProcessError: pass\n"
    )
    made = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    ids = made.stdout.split()
    assert len(ids) == 4_000
    assert len(set(ids)) == 4_000
