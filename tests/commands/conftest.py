"""A runner for each test; at its end no descriptor and no process may be left of it."""

from pathlib import Path
from uuid import uuid4

import pytest

from posthouse.commands import CommandRunner
from support.commands import descendants, processes_with
from support.waiting import eventually


def descriptors():
    """Those of this process that stay open, and what they are."""
    return {link.name: str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()}


@pytest.fixture
async def runner():
    before, children = descriptors(), descendants()
    async with CommandRunner(grace=0.5) as runner:
        yield runner
    assert [thing for name, thing in descriptors().items() if name not in before] == []
    await eventually(lambda: descendants() <= children, what="the end of all processes")


@pytest.fixture
def token():
    """A word for command lines by which all processes of a test are found."""
    token = f"token-{uuid4().hex}"
    yield token
    assert processes_with(token) == []
