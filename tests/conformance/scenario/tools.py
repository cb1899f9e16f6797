"""Tools under the names that the conformance suite calls."""

from rehearsal_room.scenarios.api import Db
from rehearsal_room.scenarios.errors import ToolError


def test_simple_text(db: Db) -> str:
    """Give a plain text."""
    db.run("INSERT INTO calls (tool) VALUES ('test_simple_text')")
    return "This is a simple text response for testing."


def test_error_handling(db: Db) -> str:
    """Refuse, always."""
    raise ToolError("This tool intentionally returns an error for testing")


def test_streaming_elicitation(db: Db) -> str:
    """Answer at once: nothing is streamed, and the client is not asked for input."""
    return "Nothing was asked."


def test_logging_tool(db: Db) -> str:
    """Answer at once: nothing is logged to the client."""
    return "Nothing was logged."
