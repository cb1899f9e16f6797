# /// script
# dependencies = ["pydantic-ai-slim[mcp,anthropic]==2.68.0"]
# ///
"""A Pydantic AI agent with the toolset of an MCP server, which asks by Anthropic's API."""

import os
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset

agent = Agent(
    f"anthropic:{os.environ['ANTHROPIC_MODEL']}",
    toolsets=[MCPToolset(os.environ["REHEARSE_MCP_URL"])],
)
result = agent.run_sync(Path(os.environ["REHEARSE_PROMPT"]).read_text())
print(result.output)
