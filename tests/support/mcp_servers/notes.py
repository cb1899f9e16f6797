"""A notebook over MCP, for tests: its notes are in memory.

python notes.py [--http]
"""

import argparse
import base64
import socket
import sys

import uvicorn
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.tools import ToolResult
from fastmcp.utilities.types import Image
from mcp_types import EmbeddedResource, ResourceLink, TextContent, TextResourceContents

server = FastMCP("notes")
notes: list[str] = []


@server.tool
def add_note(text: str) -> dict[str, int]:
    """Add a note; gives its number."""
    if not text:
        raise ToolError("A note needs a text.")
    notes.append(text)
    return {"number": len(notes)}


@server.tool
def list_notes() -> dict[str, list[str]]:
    """All notes."""
    return {"notes": notes}


@server.tool
def draw() -> ToolResult:
    """A picture, a page and a link."""
    link = ResourceLink(type="resource_link", uri="notes://1", name="first note")
    page = TextResourceContents(uri="notes://page", text="a page")
    picture = Image(data=base64.b64decode("iVBORw0KGgo="), format="png").to_image_content()
    return ToolResult(
        content=[
            TextContent(type="text", text="drawn"),
            picture,
            EmbeddedResource(type="resource", resource=page),
            link,
        ],
        structured_content={"pages": 1},
    )


def serve_http() -> None:
    """Serve on a free loopback port, and print the port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        sys.stdout.write(f"{listening.getsockname()[1]}\n")
        sys.stdout.flush()
        config = uvicorn.Config(server.http_app(), log_level="error")
        uvicorn.Server(config).run(sockets=[listening])


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--http", action="store_true")
    options = parser.parse_args()
    if options.http:
        serve_http()
    else:
        server.run(transport="stdio", show_banner=False)


if __name__ == "__main__":
    main()
