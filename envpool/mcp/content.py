"""MCP results as text, for an agent that reads text."""

from typing import Any

import mcp_types
import msgspec

from rehearsal_room.scenarios.files import UNREADABLE

_encode = msgspec.json.Encoder().encode


def text_of(result: mcp_types.CallToolResult) -> str:
    """A result as one text: its parts one below the other, other media described in words, and its
    structured content where no text part holds the same.

    Example: text "found 2", a PNG of 812 bytes, structured {"count": 2} ->
    found 2
    [image/png image, 812 bytes]
    {"count":2}
    """
    lines = [line_of(block) for block in result.content]
    structured = result.structured_content
    if structured is not None and not any(_equals(line, structured) for line in lines):
        lines.append(_json(structured))
    return "\n".join(lines)


def line_of(block: Any) -> str:
    """One content block as text."""
    match block:
        case mcp_types.TextContent():
            return block.text
        case mcp_types.ImageContent() | mcp_types.AudioContent():
            return f"[{block.mime_type} {block.type}, {_num_bytes(block.data)} bytes]"
        case mcp_types.ResourceLink():
            about = f": {block.description}" if block.description else ""
            return f"[link to {block.uri}, {block.title or block.name}{about}]"
        case mcp_types.EmbeddedResource(resource=mcp_types.TextResourceContents() as inner):
            return f"[{inner.uri}]\n{inner.text}"
        case mcp_types.EmbeddedResource(resource=mcp_types.BlobResourceContents() as inner):
            kind = inner.mime_type or "binary"
            return f"[{inner.uri}, {kind}, {_num_bytes(inner.blob)} bytes]"
    return f"[{block.type}]"


def _equals(text: str, structured: dict[str, Any]) -> bool:
    """Whether a text is the structured content, or the value that servers wrap in it, as in
    {"result": …}."""
    expected: list[Any] = [structured]
    if len(structured) == 1:
        expected += structured.values()
    if text in (value for value in expected if isinstance(value, str)):
        return True
    try:
        return msgspec.json.decode(text) in expected
    except UNREADABLE:
        return False


def _num_bytes(base64: str) -> int:
    return len(base64.rstrip("=")) * 3 // 4


def _json(value: Any) -> str:
    return _encode(value).decode()
