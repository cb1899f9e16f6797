"""A server that asks its client (elicitation, sampling), adds a tool, and has a resource and a
prompt; written with fastmcp, for tests.

python asking.py [NAME [--http]]
"""

import sys
from typing import Literal

from fastmcp import Context, FastMCP
from mcp_types import SamplingMessage, TextContent, ToolListChangedNotification
from pydantic import BaseModel, Field

server = FastMCP(sys.argv[1] if len(sys.argv) > 1 else "asking")


class Delivery(BaseModel):
    """What it asks the user for."""

    order_id: str = Field(description="Which order is it?")
    day: Literal["Monday", "Friday"]
    parcels: int
    is_gift: bool = False


@server.tool
async def deliver(ctx: Context) -> str:
    """Ask the user what to deliver when."""
    found = await ctx.elicit("Please fill in the delivery.", Delivery)
    return found.model_dump_json()


@server.tool
async def summarise(text: str, ctx: Context) -> str:
    """Ask the client's model to sum up a text."""
    about = SamplingMessage(role="user", content=TextContent(type="text", text=f"Sum up: {text}"))
    reply = await ctx.session.create_message(
        [about], max_tokens=40, system_prompt="Be short.", related_request_id=ctx.request_id
    )
    assert isinstance(reply.content, TextContent)
    return f"summary: {reply.content.text}"


@server.tool
async def unlock(ctx: Context) -> str:
    """Add a tool in mid-session."""
    server.add_tool(extra)
    await ctx.send_notification(ToolListChangedNotification())
    return "unlocked"


def extra() -> str:
    """A tool that comes later."""
    return "the extra tool"


@server.resource("notes://today", description="The notes of today")
def today() -> str:
    return "milk"


@server.resource("notes://{day}")
def notes_of(day: str) -> str:
    return f"no notes on {day}"


@server.prompt
def greet(name: str) -> str:
    """A greeting."""
    return f"Greet {name}."


if __name__ == "__main__":
    server.run(transport="stdio", show_banner=False)
