"""The errors of generating worlds.

ScenarioError
└── GenerateError        the requested worlds cannot be made: a knob, a trade, a folder
    └── ModuleError      a business module or a trade file is broken: file and fault
"""

from rehearsal_room.scenarios.errors import ScenarioError


class GenerateError(ScenarioError):
    """The requested worlds cannot be made; the message has the reason."""


class ModuleError(GenerateError):
    """A business module or a trade is broken; the message names the file and the fault."""
