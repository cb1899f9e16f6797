"""What can be wrong with a scenario.

ScenarioError
├── PackageError      a package on disk is broken: the sentence names the file and the field
└── UnknownScenario   no bundled scenario has this name and no folder has this path

ToolError is not in the tree: it is how a tool tells the agent that it will not do as asked.
"""


class ScenarioError(Exception):
    """A scenario cannot be had."""


class PackageError(ScenarioError):
    """A package on disk is broken; the message names the file, the field and the fault."""


class UnknownScenario(ScenarioError):
    """No bundled scenario has this name and no folder has this path."""


class ToolError(Exception):
    """A tool's complaint to the agent: a rule refused the call, or what it names does not exist.

    The text is shown to the agent as the result of its call and the world stays as it was.
    """
