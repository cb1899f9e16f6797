"""PYTHON upstream.py LISTING CHECKOUT [URL OUTPUT < names > results]:
ToolSandbox's own runner, with a clock and ids that stand still.

It runs in the interpreter that has the checkout's packages and imports nothing of this project but
LISTING, which freezes clock and ids. Without a URL it prints the literal targets of all scenarios;
with one it plays the scenarios whose names come in by `tool_sandbox.cli.main`, whose clients ask
URL/SCENARIO:agent and URL/SCENARIO:user. A result is a line of JSON.
"""

import importlib.util
import json
import os
import sys
from typing import Any

_SETTERS = {
    "cellular": "set_cellular_service_status",
    "wifi": "set_wifi_status",
    "location_service": "set_location_service_status",
    "low_battery_mode": "set_low_battery_mode_status",
}


def main(listing: str, checkout: str, url: str = "", output: str = "") -> None:
    """Print targets, or play."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spec = importlib.util.spec_from_file_location("tasks", listing)
    assert spec is not None and spec.loader is not None
    tasks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tasks)
    if not url:
        found = {name: _targets(one) for name, one in tasks.load(checkout).items()}
        answers.write(json.dumps(found))
        return
    sys.path.insert(0, checkout)
    os.environ |= {"OPENAI_API_KEY": "none", "TZ": "UTC"}
    from tool_sandbox import cli
    from tool_sandbox.common.execution_context import get_current_context
    from tool_sandbox.roles import openai_api_agent, openai_api_user

    tasks.load(checkout)  # the clock, in all modules
    tasks.freeze()
    playing = [""]
    client = openai_api_agent.OpenAI

    def asks(who: str) -> Any:
        return lambda base_url: client(base_url=f"{url}/{playing[0]}:{who}/v1", max_retries=0)

    openai_api_agent.OpenAI = asks("agent")
    openai_api_user.OpenAI = asks("user")
    run = cli.run_scenario

    def run_scenario(name_and_scenario: Any, **how: Any) -> Any:
        playing[0] = name_and_scenario[0]
        found = run(name_and_scenario, **how)
        context = get_current_context()
        rows = context.get_database("SANDBOX", get_all_history_snapshots=True).to_dicts()
        kept = ("similarity", "turn_count", "milestone_mapping", "minefield_mapping")
        result = {name: found[name] for name in ("name", "exception_type", *kept)}
        result["texts"] = [
            row["content"]
            for row in rows
            if (row["sender"], row["recipient"]) == ("EXECUTION_ENVIRONMENT", "AGENT")
        ]
        result["state"] = {
            table.lower(): sorted(
                json.dumps(row, sort_keys=True) for row in context.get_database(table).to_dicts()
            )
            for table in ("SETTING", "CONTACT", "MESSAGING", "REMINDER")
        }
        answers.write(json.dumps(result) + "\n")
        answers.flush()
        return found

    cli.run_scenario = run_scenario
    names = sys.stdin.read().split()
    sys.argv = ["tool_sandbox", "-p", "1", "-o", output, "-s", *names]
    cli.main()


def _targets(scenario: Any) -> list[dict[str, Any]]:
    """What the milestones name literally, in their order: calls, and texts of the agent."""
    found: list[dict[str, Any]] = []
    context = scenario.starting_context
    for milestone in scenario.evaluation.milestone_matcher.milestones:
        for constraint in milestone.snapshot_constraints:
            if constraint.target_dataframe is None:
                continue
            for row in constraint.target_dataframe.to_dicts():
                found += _targets_of(row)
    for one in found:
        if "name" in one:
            one["name"] = context.get_agent_facing_tool_name(one["name"])
    return found


def _targets_of(row: dict[str, Any]) -> list[dict[str, Any]]:
    if row.get("tool_trace"):
        trace = json.loads(row["tool_trace"])
        one = trace[0] if isinstance(trace, list) else trace
        return [{"name": one["tool_name"], "arguments": one["arguments"]}]
    if row.get("sender") == "AGENT" and row.get("content"):
        return [{"text": row["content"]}]
    return [
        {"name": tool, "arguments": {"on": row[column]}}
        for column, tool in _SETTERS.items()
        if column in row
    ]


if __name__ == "__main__":
    main(*sys.argv[1:5])
