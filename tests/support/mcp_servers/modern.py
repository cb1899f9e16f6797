"""A server of MCP 2026-07-28, written with the official SDK: it announces a new tool to
subscribers, and asks for a form by an unfinished result (SEP-2322), for tests."""

from typing import Annotated

from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve
from pydantic import BaseModel

server = MCPServer("modern")


class Order(BaseModel):
    """What it asks the user for."""

    order_id: str


async def ask_order() -> Elicit[Order]:
    """The form."""
    return Elicit("Which order is it?", Order)


@server.tool()
async def cancel(order: Annotated[Order, Resolve(ask_order)]) -> str:
    """Cancel the order that the user names."""
    return f"cancelled {order.order_id}"


@server.tool()
async def unlock(ctx: Context) -> str:
    """Add a tool in mid-session."""
    server.add_tool(extra)
    await ctx.notify_tools_changed()
    return "unlocked"


def extra() -> str:
    """A tool that comes later."""
    return "the extra tool"


if __name__ == "__main__":
    server.run("stdio")
