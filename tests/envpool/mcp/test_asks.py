"""Servers that ask their client, announce tools, or have resources; and several in one world. The
servers are written with fastmcp and the official SDK, which send what they send by themselves."""

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # ships no type hints
import pytest
from structlog.testing import capture_logs

import rehearsal_room as rr
from rehearsal_room.envpool.core.errors import WorldError
from rehearsal_room.envpool.core.types import ServerRequest, ToolResult
from rehearsal_room.envpool.mcp.asks import ELICITATION, SAMPLING, LoggedAnswers, NotAnswered
from rehearsal_room.envpool.mcp.client import McpSettings
from rehearsal_room.envpool.mcp.pool import McpPool
from rehearsal_room.envpool.mcp.server_pool import McpEnv
from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import AgentCall, Reply, Window
from rehearsal_room.harness.policies.base import Assignment
from rehearsal_room.harness.rollout.episode import run_episode
from rehearsal_room.harness.rollout.plan import plan_of
from rehearsal_room.scenarios.format import Scenario
from rehearsal_room.scenarios.mcp_tasks import read_mcp_tasks
from rehearsal_room.viewer.reading.episode import result_of
from tests.support.cli import Rehearse, json_of
from tests.support.paths import MCP_SERVERS
from tests.support.run_context import (
    DONE,
    MemorySink,
    make_run_context,
    watchdog_running,
)

ASKING, MODERN, NOTES, PLAIN = (
    f"{sys.executable} {MCP_SERVERS / name}.py" for name in ("asking", "modern", "notes", "plain")
)
TASKS = """
name = "parcels"
description = "Parcels of one person"

[[task]]
id = "deliver"
instruction = "Have my order delivered."
answer = "done"
oracle = [{ name = "deliver", arguments = {} }]

[task.user]
closing = "Bye."
lines = [
    { id = "order", text = "It is order A-17.", asked = ["order"], values = ["A-17"] },
    { id = "day", text = "On Friday, please.", asked = ["day"] },
    { id = "parcels", text = "They are 2 parcels.", asked = ["parcel*"] },
]
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    path = tmp_path / "tasks.toml"
    path.write_text(TASKS)
    return path


@pytest.fixture
def scenario(tasks: Path) -> Scenario:
    return read_mcp_tasks(tasks, "a server")


@pytest.mark.slow
def test_the_user_of_a_task_answers_its_server(
    rehearse: Rehearse, tasks: Path, tmp_path: Path
) -> None:
    """The lines of the automaton fill in the form; request and answer are in the log with the call,
    and replay gives the server the same answer."""
    run = tmp_path / "run"
    flags = ("--mcp", ASKING, "--mcp-ask", "user", f"{tasks}:deliver", "-p", "oracle")
    report = json_of(rehearse, "run", *flags, "-o", run)
    shown = rehearse("show", run, "e000000", "--full")[1]
    replayed = json_of(rehearse, "replay", run)

    assert report["labels"] == {"completed": 1}
    assert "? the server asked elicitation/create" in shown
    assert '"order_id":"A-17","day":"Friday","parcels":2' in "".join(shown.split())
    assert (replayed["calls"], replayed["divergences"]) == (1, [])


@pytest.mark.slow
def test_what_a_server_asked_is_shown_and_exported(
    rehearse: Rehearse, tasks: Path, tmp_path: Path
) -> None:
    """The viewer's page, the exported lines, Parquet, trajectories and spans have what the server
    asked in a call, with the answer that it got; a trajectory is imported with them."""
    run = tmp_path / "run"
    flags = ("--mcp", ASKING, "--mcp-ask", "user", f"{tasks}:deliver", "-p", "oracle")
    assert rehearse("run", *flags, "-o", run)[0] == 0
    with rr.open_log(run) as log:
        (episode,) = log.trajectories()
    (logged,) = episode.steps[0].results[0].asked
    asked = msgspec.to_builtins(logged)

    (shown,) = result_of(episode.steps[0].results[0])["asked"]
    assert {name: shown[name] for name in asked} == asked
    assert shown["said"] == logged.params["message"]

    def exported(to: str, name: str) -> Path:
        assert rehearse("export", run, "--to", to, "-o", tmp_path / name)[0] == 0
        return tmp_path / name

    line = json.loads(exported("jsonl", "e.jsonl").read_bytes())
    assert line["steps"][0]["results"][0]["asked"] == [asked]
    assert "asked" not in json.dumps(line["steps"][1:])
    (row,) = pq.read_table(exported("parquet", "e.parquet")).to_pylist()
    assert json.loads(row["steps"][0]["results"][0]["asked"]) == [asked]
    document = exported("atif", "t.jsonl")
    assert json.loads(document.read_bytes())["steps"][2]["observation"]["results"][0]["extra"][
        "rehearsal"
    ]["asked"] == [asked]
    assert b"rehearsal.server_requests" in exported("otlp", "s.otlp").read_bytes()

    imported = tmp_path / "imported"
    status, _, err = rehearse("import", "atif", document, "-o", imported)
    assert status == 0, err
    with rr.open_log(imported) as log:
        (again,) = log.trajectories()
    assert again.steps[0].results[0].asked == (logged,)


class SumsUp:
    """A policy whose model calls a tool where it has tools, and answers in words otherwise."""

    name = "sums-up"

    def agent(self, assignment: Assignment) -> "SumsUp":
        return self

    async def reply(self, window: Window) -> Reply:
        text = window.messages[-1].content
        if text.startswith("Sum up"):
            words = " ".join(message.content for message in window.messages)
            return Reply(f"[{words}] of {(window.fields or {})['max_tokens']}")
        if "Answer this form" in text:
            return Reply('Yes: {"order_id": "B-2", "day": "Monday", "parcels": 1}')
        if any(message.role == "tool" for message in window.messages):
            return DONE
        asks = AgentCall("summarise", {"text": "a long text"}, "x1")
        return Reply("", (AgentCall("deliver", {}, "x0"), asks), "tool_calls")


async def test_the_model_of_a_run_answers_its_server(scenario: Scenario) -> None:
    """It gets the messages of a sampling request, and the schema of a form; both are logged. The
    model is scripted: none takes part."""
    sink, pool = MemorySink(), McpPool(McpSettings(ASKING, ask="model"))
    (plan,) = plan_of([(scenario, scenario.task("deliver"))], episodes=1, group_size=1, seed=1)
    context = make_run_context(SumsUp(), sink, pool=pool)
    async with watchdog_running(context):
        await run_episode(plan, context)
    step = next(one for one in sink.events(plan.episode) if isinstance(one, StepTaken))
    delivered, summed_up = step.results
    assert '"order_id":"B-2"' in delivered.text
    assert [one.method for one in delivered.asked] == [ELICITATION]
    assert summed_up.text == "summary: [Be short. Sum up: a long text] of 40"
    (asked,) = summed_up.asked
    assert asked.method == SAMPLING
    assert asked.answer is not None
    assert asked.answer["model"] == "sums-up"


async def test_logged_answers_are_given_once() -> None:
    """Each logged request is answered as it was, refusals too; another one is not answered."""
    params = {"message": "Which?"}
    said, refused = (
        ServerRequest(ELICITATION, params, {"action": "accept", "content": {"n": 1}}),
        ServerRequest(ELICITATION, params, refusal="nobody"),
    )
    answers = LoggedAnswers((said, refused))
    assert await answers(ELICITATION, dict(params)) == said.answer
    with pytest.raises(NotAnswered, match="nobody"):
        await answers(ELICITATION, params)
    with pytest.raises(NotAnswered, match="the log has no answer"):
        await answers(ELICITATION, params)


@pytest.mark.parametrize("target", [ASKING, MODERN], ids=["fastmcp", "sdk_2026"])
async def test_a_new_tool_can_be_called(scenario: Scenario, target: str) -> None:
    """A tool that the server adds in mid-episode, whether it tells everybody or its subscribers."""
    async with McpPool(McpSettings(target)).lease(scenario) as env:
        before = [tool.name for tool in env.tools]
        assert (await env.call("unlock", {}, "c0-0")).error is None
        assert (await env.call("extra", {}, "c1-0")).text == "the extra tool"
        assert [tool.name for tool in env.tools if tool.name not in before] == ["extra"]


async def test_a_form_that_the_protocol_forbids_is_refused(scenario: Scenario) -> None:
    """A server of 2026-07-28 sees that the client cannot be asked: the call is refused, the world
    goes on, and one warning has the server's name."""
    pool = McpPool(McpSettings(MODERN, name="shop"))
    async with pool.lease(scenario) as env:
        with capture_logs() as logged:
            refused = await env.call("cancel", {}, "c0-0")
            assert await env.call("cancel", {}, "c0-1") == refused
        assert refused.error == "refused"
        assert "did not declare the form elicitation capability" in refused.text
        assert (await env.call("unlock", {}, "c1-0")).error is None
    assert [(one["event"], one["server"]) for one in logged] == [("mcp_server_asks", "shop")]
    assert "--mcp-ask user" in logged[0]["advice"]


async def test_resources_and_prompts_are_tools_where_asked_for(scenario: Scenario) -> None:
    """They are listed and read by the agent; a wrong name is the agent's error."""
    found: list[tuple[str, str | None]] = []
    asked: list[tuple[str, Any]] = [
        ("list_resources", {}),
        ("read_resource", {"uri": "notes://friday"}),
        ("read_resource", {"uri": "notes:///"}),
        ("list_prompts", {}),
        ("get_prompt", {"name": "greet", "arguments": {"name": "Ada"}}),
        ("read_resource", {}),
    ]
    async with McpPool(McpSettings(ASKING, has_resources=True)).lease(scenario) as env:
        for number, (name, arguments) in enumerate(asked):
            result = await env.call(name, arguments, f"c{number}")
            found.append((result.text.partition("'")[0], result.error))
    assert found == [
        ("notes://today: The notes of today\nnotes://{day}: notes_of", None),
        ("[notes://friday]\nno notes on friday", None),
        ("Resource not found: ", "arguments"),
        ("greet(name): A greeting.", None),
        ("user: Greet Ada.", None),
        ("read_resource takes one argument, uri: a text.", "arguments"),
    ]


@pytest.mark.slow
async def test_several_servers_are_one_world(scenario: Scenario) -> None:
    """All their tools, with the server's name where two have one of a name; each call goes to its
    server, a later tool keeps the names of the others, and a reset starts all of them again."""
    servers = [McpSettings(NOTES, name="a"), McpSettings(NOTES), McpSettings(ASKING)]
    pool = McpPool(servers[0], servers[1:])
    async with pool.lease(scenario) as env:
        names = [tool.name for tool in env.tools]
        assert names == [
            *("a__add_note", "a__list_notes", "a__draw"),
            *("notes__add_note", "notes__list_notes", "notes__draw"),
            *("deliver", "summarise", "unlock"),
        ]
        await env.call("a__add_note", {"text": "milk"}, "c0-0")
        listed = [(await env.call(f"{name}__list_notes", {}, name)).text for name in ("a", "notes")]
        assert listed == ['{"notes":["milk"]}', '{"notes":[]}']
        await env.call("unlock", {}, "c1-0")
        assert (await env.call("extra", {}, "c2-0")) == ToolResult("the extra tool")
        assert [tool.name for tool in env.tools] == [*names, "extra"]
        env.reset()
        assert (await env.call("a__list_notes", {}, "c3-0")).text == '{"notes":[]}'


async def test_a_lost_server_breaks_the_joined_world_by_name(scenario: Scenario) -> None:
    """The error has the name that the user gave it, whichever server is called next."""
    pool = McpPool(McpSettings(PLAIN, name="ledger"), [McpSettings(NOTES)])
    async with pool.lease(scenario) as env:
        assert isinstance(env, McpEnv)
        with pytest.raises(WorldError, match="the MCP server 'ledger' was lost in a call of die"):
            await env.call("die", {"text": "3"}, "c0-0")
        with pytest.raises(WorldError, match="'ledger' was lost"):
            await env.call("list_notes", {}, "c1-0")
