# /// script
# dependencies = ["autogen-agentchat==0.7.5", "autogen-ext[mcp,openai]==0.7.5", "mcp<2"]
# ///
"""An assistant of AutoGen AgentChat, with the tools of an MCP server."""

import asyncio
import os
from pathlib import Path

from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient
from autogen_ext.tools.mcp import McpWorkbench, StreamableHttpServerParams

PROMPT = Path(os.environ["REHEARSE_PROMPT"]).read_text()
ABILITIES = ("vision", "json_output", "structured_output")  # that the model does not need


async def main() -> None:
    info = {**dict.fromkeys(ABILITIES, False), "function_calling": True, "family": "unknown"}
    model = OpenAIChatCompletionClient(model=os.environ["OPENAI_MODEL"], model_info=info)
    server = StreamableHttpServerParams(url=os.environ["REHEARSE_MCP_URL"])
    async with McpWorkbench(server) as world:
        agent = AssistantAgent(
            "assistant", model, workbench=world, max_tool_iterations=100, model_client_stream=True
        )
        result = await agent.run(task=PROMPT)
    print(result.messages[-1].content)


asyncio.run(main())
