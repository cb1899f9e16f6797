# /// script
# dependencies = ["openai-agents==0.24.0"]
# ///
"""An agent of the OpenAI Agents SDK, which asks by the Responses API."""

import asyncio
import os
from pathlib import Path

from agents import Agent, Runner, set_tracing_disabled
from agents.mcp import MCPServerStreamableHttp


async def main() -> None:
    set_tracing_disabled(True)
    async with MCPServerStreamableHttp({"url": os.environ["REHEARSE_MCP_URL"]}) as world:
        agent = Agent(name="assistant", model=os.environ["OPENAI_MODEL"], mcp_servers=[world])
        prompt = Path(os.environ["REHEARSE_PROMPT"]).read_text()
        result = Runner.run_streamed(agent, prompt, max_turns=100)
        async for _ in result.stream_events():
            pass
    print(result.final_output)


asyncio.run(main())
