# /// script
# dependencies = ["smolagents[mcp,openai]==1.26.0", "mcp[ws]<2"]
# ///
"""A tool-calling agent of smolagents, with the tools of an MCP server."""

import os
from pathlib import Path

from smolagents import MCPClient, OpenAIModel, ToolCallingAgent

model = OpenAIModel(os.environ["OPENAI_MODEL"])
server = {"url": os.environ["REHEARSE_MCP_URL"], "transport": "streamable-http"}
with MCPClient(server) as tools:
    for schema in [schema for tool in tools for schema in tool.inputs.values()]:
        schema["nullable"] = "default" in schema  # else smolagents requires every argument
        if "anyOf" in schema:
            schema["type"] = "any"  # its adapter takes them for strings
    agent = ToolCallingAgent(tools=tools, model=model, max_steps=100, verbosity_level=0)
    print(agent.run(Path(os.environ["REHEARSE_PROMPT"]).read_text()))
