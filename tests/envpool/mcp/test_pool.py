"""MCP servers of other people as worlds: started, asked, verified by their tools, and ended."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import psutil
import pytest

from envpool.core.errors import PoolError, StateError, WorldError
from envpool.core.types import Env, StoredState, ToolResult, ToolSpec
from envpool.mcp.checks import verify_by_calls
from envpool.mcp.client import McpSettings
from envpool.mcp.opaque_states import UNKNOWN, is_known
from envpool.mcp.pool import McpPool
from envpool.store.pool_protocol import Pool
from harness.core.events import Ending, StepTaken, decode_event, encode
from harness.rollout.episode import Limits, run_episode
from harness.rollout.plan import plan_of
from scenarios.checks import Finding
from scenarios.format import Scenario
from scenarios.mcp_tasks import read_mcp_tasks
from tests.support.paths import MCP_SERVERS
from tests.support.run_context import DONE, LOOK, MemorySink, MovesPolicy, calls, stage_of, watched

NOTES = f"{sys.executable} {MCP_SERVERS / 'notes.py'}"
PLAIN = f"{sys.executable} {MCP_SERVERS / 'plain.py'}"
TASKS = """
name = "notebook"
description = "Notes of one person"
policy = "Keep the notes."

[[task]]
id = "milk"
instruction = "Note milk, and say how many notes there are."
answer = "1"

[[task.check]]
name = "list_notes"
expect = { path = "notes", value = ["milk"] }

[[task.check]]
name = "add_note"
arguments = { text = "" }
expect = { fails = true }
kind = "guard"

[[task]]
id = "nothing"
instruction = "Add nothing."

[[task.check]]
name = "list_notes"
expect = { lacks = "milk" }
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    path = tmp_path / "tasks.toml"
    path.write_text(TASKS)
    return read_mcp_tasks(path, "a server")


def pool_of(target: str, **given: Any) -> McpPool:
    return McpPool(McpSettings(target, **given))


@contextmanager
def over_http() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The notebook at a URL, and its process."""
    command = [*NOTES.split(), "--http"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp", process
        finally:
            process.kill()


def ended(pid: int) -> bool:
    """Whether a process is no more, or waits to be buried."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


# A server that a command starts -------------------------------------------------------------------


async def test_a_command_is_a_world_for_each_lease(scenario: Scenario) -> None:
    """Every lease has a server of its own, whose notes no other sees; the tools are the server's
    and what a result says is told in words."""
    pool = pool_of(NOTES)
    async with pool.lease(scenario) as env, pool.lease(scenario) as other:
        assert env.tools[0] == ToolSpec(
            "add_note",
            "Add a note; gives its number.",
            {
                "type": "object",
                "properties": {"text": {"type": "string"}},
                "required": ["text"],
                "additionalProperties": False,
            },
        )
        added = await env.call("add_note", {"text": "milk"}, "c0-0")
        assert added == ToolResult('{"number":1}')
        assert await env.call("add_note", {"text": "again"}, "c0-0") == added
        refused = await env.call("add_note", {"text": ""}, "c1-0")
        assert refused == ToolResult("A note needs a text.", "refused")
        assert (await env.call("draw", {}, "c2-0")).text.splitlines() == [
            "drawn",
            "[image/png image, 8 bytes]",
            "[notes://page]",
            "a page",
            "[link to notes://1, first note]",
            '{"pages":1}',
        ]
        assert (await env.call("list_notes", {}, "c3-0")).text == '{"notes":["milk"]}'
        assert (await other.call("list_notes", {}, "c0-0")).text == '{"notes":[]}'
        assert pool.statistics() == {
            "worlds": 0, "live": 2, "max_live": 2, "leases": 2, "starts": 2, "calls": 5,
        }  # fmt: skip
    assert pool.statistics()["live"] == 0


async def test_its_state_is_unknown(scenario: Scenario) -> None:
    """An unknown state is no broken world: it is stored, read as empty, and never compared."""
    pool = pool_of(PLAIN)
    states = await pool.host(scenario)
    async with pool.lease(scenario) as env:
        await env.call("count", {}, "c0-0")
        assert (env.start_digest, env.digest, env.state()) == ("", "", UNKNOWN)
        with pytest.raises(WorldError, match="cannot be forked: its state is unknown"):
            env.fork()
    assert not is_known(UNKNOWN)
    assert (states.start_digest, states.start, states.tools) == ("", UNKNOWN, tuple(env.tools))
    assert states.states(UNKNOWN)[1].changes == ()
    assert states.dump(states.restored(UNKNOWN)) == {}
    with pytest.raises(StateError, match="the state of scenario 'notebook' is unknown"):
        states.restored(StoredState("aa", {}, 0, "00"))
    states.close()


async def test_an_older_server_is_a_world_too(scenario: Scenario) -> None:
    """A server of 2024-11-05 is spoken to in its own era, and all pages of its tools are read;
    whatever fails says whose fault it is, and the world goes on."""
    found: list[tuple[str | None, str]] = []
    async with pool_of(PLAIN).lease(scenario) as env:
        assert len(env.tools) == 14
        assert env.tools[2].name == "odd_arguments"
        calls: list[tuple[str, Any]] = [
            ("erase", {}),
            ("echo", None),
            ("odd_arguments", {}),
            ("broken", {}),
            ("promise", {}),
            ("nonsense", {}),
            ("echo", {"text": "fine"}),
        ]
        for number, (name, arguments) in enumerate(calls):
            result = await env.call(name, arguments, f"c{number}-0")
            found.append((result.error, result.text.partition("\n")[0][:50]))
    assert found == [
        ("unknown_tool", "There is no tool 'erase'. Tools: echo, count, odd_"),
        ("arguments", "echo: expected an object of arguments, got null."),
        ("arguments", "no such note"),
        ("internal", "the disk is full"),
        ("internal", "Invalid structured content returned by tool promis"),
        ("internal", "1 validation error for CallToolResult"),
        (None, "fine"),
    ]


async def test_a_reset_is_a_new_server(scenario: Scenario) -> None:
    """After a reset the next call finds a server that was just started, also when the one before
    was broken."""
    pool = pool_of(PLAIN)
    async with pool.lease(scenario) as env:
        counted = [(await env.call("count", {}, f"c{n}-0")).text for n in range(2)]
        env.reset()
        counted.append((await env.call("count", {}, "c0-0")).text)
        with pytest.raises(WorldError):
            await env.call("vanish", {}, "c1-0")
        env.reset()
        counted.append((await env.call("count", {}, "c0-0")).text)
    assert counted == ["1", "2", "1", "1"]
    assert pool.statistics()["starts"] == 3


async def test_nothing_of_it_stays(scenario: Scenario) -> None:
    """With the lease end the server, though it closes its ears, its children, in its process group
    or not, and its folder."""
    async with pool_of(PLAIN).lease(scenario) as env:
        folder = anyio.Path((await env.call("environment", {"text": "TMPDIR"}, "c0-0")).text)
        children = (await env.call("children", {}, "c1-0")).text
        pids = [int(pid) for pid in children.strip("[]").split(",")]
        await env.call("deaf", {}, "c2-0")
        there = [not ended(pid) for pid in pids], await folder.is_dir()
    assert there == ([True] * 3, True)
    assert ([ended(pid) for pid in pids], await folder.exists()) == ([True] * 3, False)


async def test_a_command_is_told_its_folder(scenario: Scenario) -> None:
    """`{scratch}` in a command is the path of an empty folder, another one for each lease."""
    touch = f"{PLAIN} once {{scratch}}/started"
    pool = pool_of(touch)  # started twice in one folder it would fail
    async with pool.lease(scenario) as env, pool.lease(scenario) as other:
        assert env.state() == other.state() == UNKNOWN


async def test_a_server_inherits_what_it_is_given(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables are handed on by name only: a secret of ours is none of the server's business."""
    monkeypatch.setenv("NOTES_KEY", "k1")
    monkeypatch.setenv("OTHER_KEY", "k2")
    async with pool_of(PLAIN, environment=("NOTES_KEY",)).lease(scenario) as env:
        names = ("NOTES_KEY", "OTHER_KEY")
        told = [(await env.call("environment", {"text": n}, n)).text for n in names]
    assert told == ["k1", "not there"]


async def test_noise_is_no_answer(scenario: Scenario) -> None:
    """Floods of standard error and lines that are no MCP disturb nobody."""
    async with pool_of(PLAIN).lease(scenario) as env:
        texts = [
            (await env.call(name, {"text": text}, name)).text
            for name, text in (("chatter", "1000000"), ("garble", "so"), ("echo", "fine"))
        ]
    assert texts == ["1000000", "so", "fine"]


# Servers that fail --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("3", "it ended with status 3, and last said: the notebook is on fire"),
        ("-9", "it was ended by SIGKILL, and last said: the notebook is on fire"),
    ],
)
async def test_a_server_that_dies_breaks_its_world(scenario: Scenario, how: str, why: str) -> None:
    """The call in which a server dies says how it died; the world is broken from then on, and the
    one beside it goes on."""
    pool = pool_of(PLAIN)
    async with pool.lease(scenario) as env, pool.lease(scenario) as other:
        with pytest.raises(WorldError, match=f"was lost in a call of die: {why}"):
            await env.call("die", {"text": how}, "c0-0")
        with pytest.raises(WorldError, match=why):
            await env.call("echo", {}, "c1-0")
        with pytest.raises(WorldError, match=why):
            env.state()
        assert (await other.call("echo", {"text": "fine"}, "c0-0")).text == "fine"


async def test_a_server_that_hangs_up_breaks_its_world(scenario: Scenario) -> None:
    """A server that closes its output and lives on is lost all the same."""
    async with pool_of(PLAIN).lease(scenario) as env:
        with pytest.raises(WorldError, match="was lost in a call of vanish: Connection closed"):
            await env.call("vanish", {}, "c0-0")


async def test_a_stopped_call_breaks_its_world(scenario: Scenario) -> None:
    """Nobody knows whether a call that was cancelled was executed, so its world is not used on."""
    async with pool_of(PLAIN).lease(scenario) as env:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(env.call, "wait", {}, "c0-0")
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        with pytest.raises(WorldError, match="a call of wait was stopped before"):
            await env.call("echo", {}, "c1-0")
        with pytest.raises(WorldError, match="a call of wait was stopped before"):
            env.state()
        env.reset()
        assert (await env.call("echo", {"text": "back"}, "c0-0")).text == "back"


@pytest.mark.parametrize(
    ("target", "why"),
    [
        (f"{PLAIN} dying", "does not work: it ended with status 1, .* the notebook is lost"),
        (f"{PLAIN} toolless", "has no tools"),
        (f"{PLAIN} silent", "did not tell its tools within 0.3 s"),
        ("http://127.0.0.1:9/mcp", "does not work: "),
        ("no-such-program --now", "there is no program 'no-such-program'"),
        ("ftp://127.0.0.1/mcp", "expected an http or https URL, or a command"),
        ("'unfinished", "is no command: No closing quotation"),
        ("", "is not named"),
    ],
)
async def test_a_server_that_never_worked_is_a_pool_error(
    scenario: Scenario, target: str, why: str
) -> None:
    """A server that cannot be used is told at the first start, in a sentence."""
    patience = 0.3 if "silent" in target else 30.0
    with pytest.raises(PoolError, match=why):
        await pool_of(target, start_timeout=patience).host(scenario)


async def test_a_server_that_worked_once_is_a_broken_world(
    scenario: Scenario, tmp_path: Path
) -> None:
    """Once the server was seen to work, a start that fails ends its own episode only."""
    pool = pool_of(f"{PLAIN} once {tmp_path / 'started'}")
    await pool.host(scenario)
    async with pool.lease(scenario) as env:
        assert [tool.name for tool in env.tools][:2] == ["echo", "count"]
        with pytest.raises(WorldError, match="the notebook is lost"):
            await env.call("echo", {}, "c0-0")


# A server at a URL --------------------------------------------------------------------------------


async def test_a_url_is_a_world(scenario: Scenario) -> None:
    """A server at a URL is asked over a connection of each lease's own; it is not ours to reset,
    and when it is gone the world is broken."""
    with over_http() as (url, process):
        pool = pool_of(url)
        async with pool.lease(scenario) as env:
            added = await env.call("add_note", {"text": "milk"}, "c0-0")
            assert added == ToolResult('{"number":1}')
            refused = await env.call("add_note", {"text": ""}, "c1-0")
            assert refused == ToolResult("A note needs a text.", "refused")
            with pytest.raises(WorldError, match="cannot be reset"):
                env.reset()
        async with pool.lease(scenario) as env:
            assert (await env.call("list_notes", {}, "c0-0")).text == '{"notes":["milk"]}'
            process.kill()
            process.wait()
            with pytest.raises(WorldError, match=f"'{url}' was lost in a call of list_notes: "):
                await env.call("list_notes", {}, "c1-0")
            with pytest.raises(WorldError, match="was lost"):
                env.state()


async def test_the_protocols_are_kept(scenario: Scenario) -> None:
    """The pool and what it leases have the whole Protocols."""
    async with pool_of(PLAIN).lease(scenario) as env:
        wanted = [(env, name) for name in vars(Env)] + [(pool_of(PLAIN), n) for n in vars(Pool)]
        assert [name for one, name in wanted if name[0] != "_" and not hasattr(one, name)] == []
        assert env.awaits  # type: ignore[attr-defined]


async def test_episodes_are_played_on_it(scenario: Scenario) -> None:
    """An episode on a foreign world ends as any other, its state unknown; one whose call runs past
    its limit, and need not stop there, goes on to learn that its world is broken."""
    sink = MemorySink()
    limits = Limits(call_timeout=0.3, world_stop=False)
    policy = MovesPolicy(calls("count", "broken"), DONE, by_episode={"e2": (calls("wait"), LOOK)})
    stage = stage_of(policy, sink, pool=pool_of(PLAIN), limits=limits)
    plans = plan_of([(scenario, scenario.task("milk"))], episodes=2, group_size=1, seed=1)
    async with watched(stage):
        for name, plan in zip(("e1", "e2"), plans, strict=True):
            await run_episode(msgspec.structs.replace(plan, episode=name), stage)
    steps = [event for event in sink.events("e1") if isinstance(event, StepTaken)]
    assert [(result.text, result.error) for result in steps[0].results] == [
        ("1", None),
        ("the disk is full", "internal"),
    ]
    ended = sink.ended("e1")
    assert (ended.ending, ended.state) == (Ending.ANSWERED, UNKNOWN)
    assert decode_event(encode(ended)) == ended
    slow = [event for event in sink.events("e2") if isinstance(event, StepTaken)]
    assert [result.error for step in slow for result in step.results] == ["timeout"]
    assert (sink.ended("e2").ending, sink.ended("e2").error, sink.ended("e2").state) == (
        Ending.WORLD_ERROR,
        "a call of wait was stopped before the MCP server had answered it",
        None,
    )


async def test_a_failure_of_the_server_ends_the_episode(scenario: Scenario) -> None:
    """Where the server breaks or is too slow, the episode ends there and nothing more is asked of
    it, checks included."""
    sink = MemorySink()
    policy = MovesPolicy(calls("broken"), DONE, by_episode={"e2": (calls("wait"), DONE)})
    limits = Limits(call_timeout=0.3)
    stage = stage_of(policy, sink, pool=pool_of(PLAIN), limits=limits)
    plans = plan_of([(scenario, scenario.task("milk"))], episodes=2, group_size=1, seed=1)
    async with watched(stage):
        for name, plan in zip(("e1", "e2"), plans, strict=True):
            await run_episode(msgspec.structs.replace(plan, episode=name), stage)
    found = [
        (end.ending, end.error, end.state, end.checked, end.num_steps)
        for end in map(sink.ended, ("e1", "e2"))
    ]
    failed, late = (f"the world failed in a call of {name}: " for name in ("broken", "wait"))
    assert found == [
        (Ending.WORLD_ERROR, f"{failed}the disk is full", UNKNOWN, (), 1),
        (Ending.WORLD_ERROR, f"{late}wait took longer than 0.3 s and was stopped.", None, (), 1),
    ]


# Tasks --------------------------------------------------------------------------------------------


async def test_a_task_is_verified_by_calls(scenario: Scenario) -> None:
    """The checks of a task are made in the world in which it was played; each is a finding, and so
    is what the answer must say."""
    milk = scenario.task("milk")
    async with pool_of(NOTES).lease(scenario, milk) as env:
        idle = await verify_by_calls(env, scenario, milk, "")
        await env.call("add_note", {"text": "milk"}, "c0-0")
        done = await verify_by_calls(env, scenario, milk, "There is 1 note.")
        nothing = await verify_by_calls(env, scenario, scenario.task("nothing"), "")
    wanted = 'notes = ["milk"]'
    refusal = "error: A note needs a text."
    asked = 'add_note({"text":""}): an error'
    assert idle == (
        Finding("answer says '1'", False, "'1'", "", "goal"),
        Finding(f"list_notes(): {wanted}", False, wanted, "[]", "goal"),
        Finding(asked, True, "an error", refusal, "guard"),
    )
    assert done == (
        Finding("answer says '1'", True, "'1'", "There is 1 note.", "goal"),
        Finding(f"list_notes(): {wanted}", True, wanted, '["milk"]', "goal"),
        Finding(asked, True, "an error", refusal, "guard"),
    )
    assert nothing == (
        Finding("list_notes(): lacks 'milk'", False, "lacks 'milk'", '{"notes":["milk"]}', "goal"),
    )


async def test_a_check_that_hangs_breaks_the_world(tmp_path: Path) -> None:
    """A check that is not answered in time is the world's fault, not the agent's."""
    path = tmp_path / "tasks.toml"
    path.write_text(TASKS.replace("list_notes", "wait"))
    scenario = read_mcp_tasks(path, PLAIN)
    milk = scenario.task("milk")
    async with pool_of(PLAIN).lease(scenario, milk) as env:
        with pytest.raises(WorldError, match="the check by wait took longer than"):
            await verify_by_calls(env, scenario, milk, "", patience=0.2)
