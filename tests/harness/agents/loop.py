"""An agent as a program that knows nothing of us: it asks the model and makes the calls, with the
standard library alone. The tests run it as a command."""

import json
import os
import sys
import urllib.request


def post(url: str, body: dict) -> dict:
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def mcp(method: str, **params: object) -> dict:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = post(os.environ["REHEARSE_MCP_URL"], body)
    return answer["result"]


def main() -> None:
    functions = [
        {"name": one["name"], "description": one["description"], "parameters": one["inputSchema"]}
        for one in mcp("tools/list")["tools"]
    ]
    tools = [{"type": "function", "function": one} for one in functions]
    with open(os.environ["REHEARSE_PROMPT"]) as prompt:
        messages = [{"role": "user", "content": prompt.read()}]
    while True:
        body = {"model": os.environ["OPENAI_MODEL"], "messages": messages, "tools": tools}
        answer = post(f"{os.environ['OPENAI_BASE_URL']}/chat/completions", body)
        message = answer["choices"][0]["message"]
        messages.append(message)
        for call in message.get("tool_calls") or ():
            arguments = json.loads(call["function"]["arguments"])
            result = mcp("tools/call", name=call["function"]["name"], arguments=arguments)
            text = result["content"][0]["text"]
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
        if not message.get("tool_calls"):
            sys.stdout.write(message["content"])
            return


main()
