"""Run programs as jobs: definitions, argument templates, and process supervision.

No process of a command outlives the worker.
"""

from posthouse.commands.execution import Completed
from posthouse.commands.output import Progress
from posthouse.commands.runner import CommandRunner
from posthouse.core.command.spec import CommandSpec, Outcome
from posthouse.errors import CommandUnstartable, InvalidPayload

# : Errors that a retry would not fix, for a policy's ``fail_on``.
PERMANENT = (CommandUnstartable, InvalidPayload)

__all__ = ["PERMANENT", "CommandRunner", "CommandSpec", "Completed", "Outcome", "Progress"]
