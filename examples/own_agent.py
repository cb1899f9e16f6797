"""Run your own agent on a bundled world: `python examples/own_agent.py`."""

import json
import re
import tempfile

import anyio

import rehearsal_room as rr


async def agent(task: rr.TaskView, env: rr.AgentEnv) -> str:
    code = re.search(r"LL-\w{4}-\w{4}", task.instruction)  # this agent handles gift cards only
    if code is None:
        return "I am sorry, I cannot do that."
    card = json.loads((await env.call("get_gift_card", {"code": code[0]})).text)
    return f"${card['balance_cents'] / 100} is left on it until {card['expires_on']}."


async def main() -> None:
    report = await rr.rehearse(agent, ["shop_support"], tempfile.mkdtemp())
    print(f"pass rate {report.pass_rate:.2f}, {report.labels}: rehearse show {report.folder}")


if __name__ == "__main__":
    anyio.run(main)
