"""The errors of scenario packages.

ScenarioError
├── PackageError      a package on disk is broken: the message names the file and the field
│   └── RecordError   an AWM record is broken: the message names file, line and reason
├── SynthesisError    a synthesis cannot start or continue: the message names the file or the model
│   └── OutOfBudget   the next request does not fit into the remaining budget
└── UnknownScenario   no scenario or task has this name, and no folder has this path

ToolError is not part of the tree: a tool raises it to refuse a call, and the agent reads its text.
"""

from pathlib import Path


class ScenarioError(Exception):
    """A scenario cannot be read, found or made."""


class PackageError(ScenarioError):
    """A package on disk is broken; the message names the file, the field and the fault."""


class RecordError(PackageError):
    """A record of an AWM folder is broken; `line` None: the file has no row of it."""

    def __init__(self, folder: Path, file: str, line: int | None, reason: str) -> None:
        location = folder / file if line is None else f"{folder / file}: line {line}"
        super().__init__(f"{location}: {reason}")
        self.file = file
        self.line = line
        self.reason = reason


class SynthesisError(ScenarioError):
    """A synthesis cannot start or continue; everything that it made so far stays on disk."""


class OutOfBudget(SynthesisError):
    """The next request to the model does not fit into the remaining budget."""


class UnknownScenario(ScenarioError):
    """No scenario or task has this name, and no folder has this path."""


class ToolError(Exception):
    """A tool refuses a call: a rule forbids it, or something that it names does not exist.

    The agent receives the text as the result of its call, and the world stays unchanged.
    """
