# /// script
# dependencies = ["langgraph==1.2.24", "langchain-openai==1.7.4", "langchain-mcp-adapters==0.3.2"]
# ///
"""A LangGraph graph: a node for the model, one for the tools of an MCP server."""

import asyncio
import os
from pathlib import Path

from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

PROMPT = Path(os.environ["REHEARSE_PROMPT"]).read_text()


async def main() -> None:
    server = {"url": os.environ["REHEARSE_MCP_URL"], "transport": "streamable_http"}
    tools = await MultiServerMCPClient({"world": server}).get_tools()
    model = ChatOpenAI(model=os.environ["OPENAI_MODEL"], streaming=True).bind_tools(tools)

    async def ask(state: MessagesState) -> dict:
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState).add_node("ask", ask).add_node("tools", ToolNode(tools))
    graph.add_edge(START, "ask").add_conditional_edges("ask", tools_condition)
    graph.add_edge("tools", "ask")
    state = await graph.compile().ainvoke({"messages": [PROMPT]}, {"recursion_limit": 100})
    print(state["messages"][-1].content)


asyncio.run(main())
