"""Errors about worlds.

PoolError
├── SeedError      schema.sql or data.sql has a statement that fails: the world cannot be built
├── ToolsetError   tools.py cannot be loaded, or a tool's signature has no JSON schema
├── StateError     stored pages do not belong to this world's template
└── WorldError     a world broke during an episode (not one call: the world itself)

A call that fails is not an exception: it is a ToolResult with its `error` set.
"""


class PoolError(Exception):
    """A world is not available, or it cannot be used any longer."""


class SeedError(PoolError):
    """A statement of schema.sql or data.sql fails; the message names file, statement and fault."""


class ToolsetError(PoolError):
    """tools.py does not define valid tools; the message names file, tool and parameter."""


class StateError(PoolError):
    """Stored pages do not belong to this world's template."""


class WorldError(PoolError):
    """A world broke in the middle of an episode."""
