# /// script
# dependencies = ["openai-agents==0.24.0"]
# ///
"""An agent of the OpenAI Agents SDK, which asks by the Responses API."""

import asyncio
import os
from pathlib import Path

from agents import Agent, OpenAIProvider, Runner, set_tracing_disabled
from agents.mcp import MCPServerStreamableHttp

PROMPT = Path(os.environ["REHEARSE_PROMPT"]).read_text()


async def main() -> None:
    set_tracing_disabled(True)
    model = OpenAIProvider().get_model(os.environ["OPENAI_MODEL"])  # a name may have a slash
    async with MCPServerStreamableHttp({"url": os.environ["REHEARSE_MCP_URL"]}) as world:
        agent = Agent(name="assistant", model=model, mcp_servers=[world])
        result = Runner.run_streamed(agent, PROMPT, max_turns=100)
        async for _ in result.stream_events():
            pass
    print(result.final_output)


asyncio.run(main())
