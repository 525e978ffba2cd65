"""Runs programs as jobs: a definition, argument lists from templates, and processes that never outlive us."""

from posthouse.commands.completed import Completed
from posthouse.commands.exits import Outcome
from posthouse.commands.progress import Progress
from posthouse.commands.runner import CommandRunner
from posthouse.commands.spec import CommandSpec
from posthouse.errors import CommandUnstartable, InvalidPayload

#: What no retry would change: for a policy's ``fail_on``.
PERMANENT = (CommandUnstartable, InvalidPayload)

__all__ = ["PERMANENT", "CommandRunner", "CommandSpec", "Completed", "Outcome", "Progress"]
