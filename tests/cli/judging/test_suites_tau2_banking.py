"""τ²-bench's banking_knowledge on a small checkout: hidden tools, and one database."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rehearsal_room.harness.log.reader import open_reader
from tests.cli.judging.test_suites_tau2 import asked
from tests.support.cli import Rehearse, json_of
from tests.support.judged_runs import served
from tests.support.model_server import Completes, ReceivedRequest

SUITE = "tau2_banking_bm25"


@pytest.mark.slow
def test_reference_actions_and_silence(rehearse: Rehearse, tmp_path: Path) -> None:
    """The reference actions, unlocked tools and the customer's among them, are right; silence is
    not, even where the reference only reads, for that read is a record."""
    run = tmp_path / "run"
    report = json_of(rehearse, *asked(SUITE, "-p", "oracle", "-o", run))
    assert (report["scores"], report["floor"], report["ceiling"]) == ({"banking": 1.0}, 0.0, 1.0)
    assert json_of(rehearse, "replay", run)["divergences"] == []
    forked = tmp_path / "forked"
    given = ("--from", f"{run}/e000000@1", "-p", "oracle", "-o", forked)
    json_of(rehearse, "run", *given)
    assert json_of(rehearse, "replay", forked)["divergences"] == []


class Bank:
    """A model server that plays the agent and the customer, who call tools by their own names."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.agents = [
            ("KB_search", '{"query": "account"}'),
            ("call_discoverable_agent_tool", '{"agent_tool_name": "close_account_1"}'),
            ("close_account_1", '{"account": "A1"}'),
            ("apply", '{"account": "A9"}'),
            ("list_accounts", "{}"),
            ("set_read_log_allowlist", '{"names": []}'),
        ]
        self.customers = [
            ("list_accounts", "{}"),
            ("dispute_3", '{"account": "A2"}'),
            ("read_account_2", '{"account": "A2"}'),
        ]

    async def perform(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
        """Answer as the one who is asked: every call, and then a text."""
        self.bodies.append(request.body)
        messages = request.body["messages"]
        mine = sum(bool(message.get("tool_calls")) for message in messages)
        calls = self.agents if request.body["model"] == "agent" else self.customers
        text = "Please go on." if request.body["model"] == "agent" else "Bye. ###STOP###"
        answer = Completes(text)
        if mine < len(calls) and not (request.body["model"] != "agent" and len(messages) < 3):
            answer = Completes(None, ((f"c{mine}", *calls[mine]),))
        elif len(messages) < 3:
            answer = Completes("Close my account.")
        return await answer.perform(request, writer)


@pytest.mark.slow
def test_hidden_tools_are_executed_on_their_own_side(rehearse: Rehearse, tmp_path: Path) -> None:
    """Neither side is shown them; each side's are executed when it calls them by name, and the
    other side's are refused, as are plain methods, and change nothing."""
    both, run = Bank(), tmp_path / "run"
    with served(both) as server:
        models = ("-m", "agent", "--base-url", server.url, "--no-preflight")
        models += ("--user-model", "customer", "--user-base-url", server.url)
        given = ("--task", "banking_task_001", *models, "-o", run)
        json_of(rehearse, *asked(SUITE, *given))
    shown = {
        body["model"]: {tool["function"]["name"] for tool in body["tools"]} for body in both.bodies
    }
    own = {"KB_search", "unlock_discoverable_agent_tool", "call_discoverable_agent_tool"}
    assert shown == {"agent": own, "customer": {"apply"}}
    with open_reader(run) as reader:
        (trajectory,) = reader.trajectories()
    found = [
        (call.name, result.text, [change.key for change in result.changes])
        for step in trajectory.steps
        for call, result in zip(step.executed_calls, step.executed_results, strict=True)
    ]
    assert found == [
        ("KB_search", "['Closing'] [0ms]", []),
        ("call_discoverable_agent_tool", "Error: not unlocked", []),
        ("close_account_1", "closed A1", [("accounts", "A1")]),
        ("apply", "Error: Tool 'apply' not found.", []),
        ("list_accounts", "Error: Tool 'list_accounts' not found.", []),
        ("set_read_log_allowlist", "Error: Tool 'set_read_log_allowlist' not found.", []),
        ("list_accounts", '["A1", "A2"]', []),
        ("dispute_3", "disputed A2", [("accounts", "A2")]),
        ("read_account_2", "Error: Tool 'read_account_2' not found.", []),
    ]
    assert json_of(rehearse, "replay", run)["divergences"] == []
