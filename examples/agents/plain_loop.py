"""A loop on the openai package, as a function: `--agent examples/agents/plain_loop.py:agent`."""

import json

from openai import OpenAI


def agent(task, env):
    client = OpenAI(base_url=task.model_url, api_key=task.key)
    messages = [{"role": "user", "content": f"{task.rules}\n\n{task.instruction}"}]
    tools = [
        {"name": tool.name, "description": tool.description, "parameters": tool.schema}
        for tool in env.tools
    ]
    asked = {"model": task.model, "tools": [{"type": "function", "function": one} for one in tools]}
    while True:
        completion = client.chat.completions.create(messages=messages, **asked)
        message = completion.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls or ():
            result = env.call(call.function.name, json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result.text})
        if not message.tool_calls:
            heard = env.say(message.content) if task.is_dialogue else None
            if heard is None:
                return message.content
            messages.append({"role": "user", "content": heard})
