"""What can go wrong with worlds.

PoolError
├── SeedError      schema.sql or data.sql has a statement that fails: the world cannot be built
├── ToolsetError   tools.py cannot be loaded, or a tool's signature cannot be told as a JSON schema
├── StateError     stored pages do not belong to this world's template
└── WorldError     a world broke during an episode (not one call: the world itself)

A call that fails is not an exception: it is a ToolResult with its `error` set.
"""


class PoolError(Exception):
    """A world cannot be had or cannot go on."""


class SeedError(PoolError):
    """A statement of schema.sql or data.sql fails; the message names file, statement, fault."""


class ToolsetError(PoolError):
    """tools.py cannot be turned into tools; the message names the file, the tool, the parameter."""


class StateError(PoolError):
    """Stored pages do not belong to this world's template."""


class WorldError(PoolError):
    """A world broke in the middle of an episode."""
