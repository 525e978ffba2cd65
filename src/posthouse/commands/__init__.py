"""Run programs as jobs: definitions, argument templates, and process supervision.

No process of a command outlives the worker.
"""

from posthouse.commands.execution import CommandResult
from posthouse.commands.output import CommandProgress
from posthouse.commands.runner import CommandRunner
from posthouse.core.command.spec import CommandSpec, Outcome
from posthouse.errors import CommandStartError, InvalidPayload

# : Errors that a retry would not fix, for a policy's ``fail_on``.
PERMANENT = (CommandStartError, InvalidPayload)

__all__ = ["PERMANENT", "CommandProgress", "CommandResult", "CommandRunner", "CommandSpec", "Outcome"]
