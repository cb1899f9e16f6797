"""What can be wrong with a scenario.

ScenarioError
├── PackageError      a package on disk is broken: the sentence names the file and the field
│   └── RecordError   so is an AWM record: file, line and reason
├── SynthesisError    a synthesis cannot begin or go on: the sentence names the file or the model
│   └── OutOfBudget   the next request does not fit into what may be spent
└── UnknownScenario   no bundled scenario has this name and no folder has this path

ToolError is not in the tree: it is how a tool tells the agent that it will not do as asked.
"""

from pathlib import Path


class ScenarioError(Exception):
    """A scenario cannot be had."""


class PackageError(ScenarioError):
    """A package on disk is broken; the message names the file, the field and the fault."""


class RecordError(PackageError):
    """A record of an AWM folder is broken, or a line of it; `line` None: it is not there."""

    def __init__(self, folder: Path, file: str, line: int | None, reason: str) -> None:
        place = folder / file if line is None else f"{folder / file}: line {line}"
        super().__init__(f"{place}: {reason}")
        self.file = file
        self.line = line
        self.reason = reason


class SynthesisError(ScenarioError):
    """A synthesis cannot begin or go on; what it has made so far is kept."""


class OutOfBudget(SynthesisError):
    """The next request to the model does not fit into the budget."""


class UnknownScenario(ScenarioError):
    """No bundled scenario has this name and no folder has this path."""


class ToolError(Exception):
    """A tool's complaint to the agent: a rule refused the call, or what it names does not exist.

    The text is shown to the agent as the result of its call and the world stays as it was.
    """
