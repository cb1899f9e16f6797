"""A loop on the openai package, as a function of your own:

rehearse run shop_support -m MODEL --base-url URL --agent examples/agents/plain_loop.py:agent
"""

import json

from openai import OpenAI


def agent(task, env):
    client = OpenAI(base_url=task.model_url, api_key=task.key)
    tools = [
        {"type": "function", "function": {"name": tool.name, "parameters": tool.schema, "description": tool.description}}
        for tool in env.tools
    ]
    messages = [{"role": "system", "content": task.rules}, {"role": "user", "content": task.instruction}]
    while True:
        asked = client.chat.completions.create(model=task.model, messages=messages, tools=tools)
        message = asked.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls or ():
            result = env.call(call.function.name, json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result.text})
        if not message.tool_calls:
            heard = env.say(message.content) if task.is_dialogue else None
            if heard is None:
                return message.content
            messages.append({"role": "user", "content": heard})
