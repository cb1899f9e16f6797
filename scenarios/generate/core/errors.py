"""What can be wrong when worlds are generated.

ScenarioError
└── GenerateError        what was asked for cannot be made: a knob, a trade, a folder
    └── ModuleError      a business module or a trade of ours is broken: file and fault
"""

from scenarios.errors import ScenarioError


class GenerateError(ScenarioError):
    """What was asked for cannot be made; the sentence says why."""


class ModuleError(GenerateError):
    """A business module or a trade is broken; the sentence names the file and the fault."""
