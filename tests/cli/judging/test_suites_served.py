"""The suites MCP-Universe and MCPMark, on small checkouts in their layouts, with own servers."""

import asyncio
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from rehearsal_room.envpool.served.needs import ServedSettings
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.scenarios.suites import mcp_universe
from tests.support.cli import Rehearse, json_of
from tests.support.judged_runs import served
from tests.support.model_server import Completes, ReceivedRequest, Status
from tests.support.paths import SUITES

UNIVERSE, MARK = SUITES / "mcp_universe_checkout", SUITES / "mcpmark_checkout"
_SERVER = str(MARK / "servers" / "files.py")
KEY = "desk-key-of-nobody-789"


class Librarian:
    """A model that solves the tasks of both checkouts."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []

    async def perform(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
        if "messages" not in request.body:  # another test's client, whose server had this port
            return await Status(404).perform(request, writer)
        self.bodies.append(request.body)
        messages = request.body["messages"]
        task = next(str(one["content"]) for one in messages if one["role"] == "user")
        results = [str(one["content"]) for one in messages if one["role"] == "tool"]
        return await self._reply(task, results).perform(request, writer)

    def _reply(self, task: str, results: list[str]) -> Completes:
        if "How many copies" in task:
            answer = '{"copies": 4, "title": "The Glass River"}'
            return _then(results, ("library__find_book", {"title": "The Glass River"}), answer)
        if "Lend one copy" in task:
            return _then(results, ("library__lend", {"title": "The Glass River"}), '{"copies": 3}')
        if "signs of the key" in task:
            if not results:
                return _calls("desk__key_sign", {})
            return _then(results[1:], ("desk__variables", {}), f"It ends with {results[0]}")
        if "Please move glass_river" in task:
            moved = {"source": "glass_river.txt", "destination": "history/glass_river.txt"}
            return _then(results, ("move_file", moved), "It is in history now.")
        if "sorted, into books.txt" in task:
            if not results:
                return _calls("list_files", {})
            names = sorted(name.rpartition("/")[2] for name in results[0].split())
            written = {"path": "books.txt", "content": "\n".join(names)}
            return _then(results[1:], ("write_file", written), "I have written them down.")
        return Completes("I do not know.")


def _calls(name: str, arguments: dict[str, Any]) -> Completes:
    return Completes(None, (("c1", name, json.dumps(arguments)),))


def _then(results: list[str], call: tuple[str, dict[str, Any]], answer: str) -> Completes:
    """The call, and the answer once the tool has answered."""
    return Completes(answer) if results else _calls(*call)


@pytest.fixture
def servers(tmp_path: Path) -> Path:
    """A list with a file system server of our own."""
    arguments = [_SERVER, "{{FILESYSTEM_TEST_DIR}}"]
    command = {"command": sys.executable, "args": arguments}
    path = tmp_path / "servers.json"
    path.write_text(json.dumps({"filesystem": {"stdio": command}}))
    return path


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which all temporary files are made."""
    made = tmp_path / "scratch"
    made.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(made))
    return made


def mark(*more: object, category: str = "filesystem") -> tuple[object, ...]:
    return ("eval", "mcpmark", "--suite-path", MARK, "--category", category, *more)


def universe(*more: object, category: str = "web_search") -> tuple[object, ...]:
    asked = ("eval", "mcp_universe", "--suite-path", UNIVERSE, "--category", category)
    return (*asked, "--prompts", "ours", *more)


def model_at(url: str) -> tuple[object, ...]:
    return ("-m", "m", "--base-url", url, "--no-preflight")


@pytest.mark.slow
def test_files_are_changed_in_a_copy(
    rehearse: Rehearse, tmp_path: Path, servers: Path, scratch: Path
) -> None:
    """Each of several episodes at once has a copy of the folder and a server of its own. The
    task's script decides. The folder is as before, and no copy and no server is left."""
    before = {path: path.read_bytes() for path in MARK.rglob("*.txt")}
    run = tmp_path / "run"
    with served(Librarian()) as server:
        asked = mark("--suite-servers", servers, *model_at(server.url), "-k", 3, "-o", run)
        report = json_of(rehearse, *asked)
    assert report["scores"] == {"filesystem": 1.0}
    assert (report["tasks"], report["episodes"], report["unjudged"]) == (2, 6, 0)
    assert (report["floor"], report["ceiling"]) == (0.0, None)
    assert report["pass_hat_k"] == {"1": 1.0, "2": 1.0, "3": 1.0}
    assert {path: path.read_bytes() for path in MARK.rglob("*.txt")} == before
    assert list(scratch.iterdir()) == []
    left = [one for one in psutil.Process().children(recursive=True) if _SERVER in _words(one)]
    assert left == []
    _, out, _ = rehearse("show", run, "e000000")
    assert "verify.py" in out


def _words(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


@pytest.mark.slow
def test_a_run_goes_on_and_is_judged_again(
    rehearse: Rehearse, tmp_path: Path, servers: Path
) -> None:
    """A run that is resumed asks no model again; judged from its log it has the same labels; its
    calls are made again in new worlds."""
    run, model = tmp_path / "run", Librarian()
    with served(model) as server:
        asked = mark("--suite-servers", servers, *model_at(server.url), "-o", run)
        first, count = json_of(rehearse, *asked), len(model.bodies)
        assert json_of(rehearse, *asked, "--resume") == first
        assert len(model.bodies) == count
    assert json_of(rehearse, "judge", run)["labels"]["completed"] == 2
    replayed = json_of(rehearse, "replay", run)
    assert (replayed["episodes"], replayed["divergences"]) == (2, [])


def test_what_a_script_lacks_is_not_the_agents_fault(
    rehearse: Rehearse, tmp_path: Path, servers: Path
) -> None:
    """A script that cannot import a package leaves the episode unjudged."""
    asked = mark("--suite-servers", servers, "-p", "noop", category="filesystem_easy")
    report = json_of(rehearse, *asked, "-o", tmp_path / "run")
    assert (report["episodes"], report["unjudged"], report["scores"]) == (1, 1, {})


@pytest.mark.slow
def test_evaluators_decide_on_the_answer(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each evaluator of the checkout makes a finding; a task has the tools that it names; what a
    task did outside is undone by the checkout's own cleanups."""
    undone, run, model = tmp_path / "undone", tmp_path / "run", Librarian()
    monkeypatch.setenv("UNDONE_FILE", str(undone))
    with served(model) as server:
        more = ("--mcp-env", "UNDONE_FILE", *model_at(server.url), "-o", run)
        report = json_of(rehearse, *universe(*more))
    assert (report["scores"], report["floor"]) == ({"web_search": 1.0}, 0.0)
    tools = {
        tuple(tool["function"]["name"] for tool in body["tools"])
        for body in model.bodies
        if body.get("tools")
    }
    assert tools == {
        ("library__find_book", "library__lend"),
        ("library__lend",),
    }
    assert [json.loads(line) for line in undone.read_text().splitlines()] == [
        {"title": "The Glass River"}
    ]
    _, out, _ = rehearse("show", run, "e000000")
    assert "number of copies" in out


@pytest.mark.slow
def test_a_key_reaches_the_server_that_asks_for_it_alone(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user names variables; one reaches the servers whose list has it and the evaluators.
    Nothing else of the environment does, and the log has no value of a key."""
    for name, value in {"DESK_KEY": KEY, "DESK_OWNER": "Mr Boyle", "OTHER_KEY": "x"}.items():
        monkeypatch.setenv(name, value)
    run, model = tmp_path / "run", Librarian()
    named = ("--mcp-env", "DESK_KEY", "--mcp-env", "DESK_OWNER")
    with served(model) as server:
        asked = universe(*named, *model_at(server.url), "-o", run, category="multi_server")
        report = json_of(rehearse, *asked)
    assert report["scores"] == {"multi_server": 1.0}
    results = [one for one in model.bodies[-1]["messages"] if one["role"] == "tool"]
    variables = str(results[1]["content"]).split()
    assert "DESK_KEY" in variables
    assert not {"OTHER_KEY", "DESK_OWNER"} & set(variables)
    assert "Mr Boyle's desk" in json.dumps(model.bodies)
    for path in run.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes()
    with open_reader(run) as reader:
        assert [row.label for row in reader.episodes()] == ["completed"]


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (("eval", "mcpmark"), "needs a checkout of MCPMark: clone https://"),
        (("eval", "mcp_universe"), "needs a checkout of MCP-Universe: clone https://"),
        (("eval", "mcpmark", "--suite-path", UNIVERSE), "there is no checkout of MCPMark (no ta"),
        (("eval", "mcp_universe", "--suite-path", MARK), "there is no checkout of MCP-Universe ("),
        (universe("-p", "oracle"), "suite 'mcp_universe' has no reference solutions that 'oracle'"),
        (mark("-p", "mutant"), "suite 'mcpmark' has no reference solutions that 'mutant' could"),
        (
            universe("-p", "noop", category="3d_design"),
            "choose with --category: web_search, multi_server",
        ),
        (
            universe("-p", "noop", "--mcp-env", "DESK_OWNER", category="multi_server"),
            "task 'multi_server_desk_task_0001': server 'desk' needs the variable DESK_KEY: set "
            "it, and name it with --mcp-env DESK_KEY",
        ),
        (
            universe(
                *("-p", "noop", "--mcp-env", "DESK_OWNER", "--mcp-env", "DESK_KEY"),
                category="multi_server",
            ),
            "server 'desk' needs the variable DESK_KEY, which is not set",
        ),
        (universe("-p", "noop", "--suite-servers", MARK / "pyproject.toml"), "not a list of MCP"),
        (universe("-p", "noop", "--suite-servers", "nowhere.json"), "nowhere.json: it cannot be"),
        (("eval", "needs", "bfcl_v3"), "suite 'bfcl_v3' starts no MCP servers; it needs pip"),
    ],
)
def test_bad_input_is_one_sentence(
    rehearse: Rehearse,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    asked: tuple[object, ...],
    sentence: str,
) -> None:
    """What is wrong, which task or server needs it, and what to do."""
    monkeypatch.setenv("DESK_OWNER", "Mr Boyle")
    monkeypatch.delenv("DESK_KEY", raising=False)
    more = () if asked[1] == "needs" else ("-o", tmp_path / "run")
    status, _, err = rehearse(*asked, *more)
    assert (status, len(err.splitlines())) == (2, 1), err
    assert sentence in err


def test_policies_that_need_solutions_are_refused_before_tasks_are_read(
    rehearse: Rehearse, tmp_path: Path
) -> None:
    """A suite without solutions says so at once: its tasks, which it may take a minute to list, are
    not looked at."""
    checkout = shutil.copytree(UNIVERSE, tmp_path / "checkout")
    for task in checkout.rglob("*_task_*.json"):
        task.write_text("{")
    asked = ("eval", "mcp_universe", "--category", "web_search", "--suite-path", checkout)
    for policy, sentence in (("oracle", "no reference solutions"), ("noop", "JSON")):
        more = ("--prompts", "ours", "-p", policy, "-o", tmp_path / policy)
        status, _, err = rehearse(*asked, *more)
        assert (status, len(err.splitlines())) == (2, 1), err
        assert sentence in err


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"program": "no-such-globe"}, "needs the program 'no-such-globe', which is not installed"),
        ({"root": "nowhere"}, "begins with a copy of the folder"),
        ({"program": "false"}, "the MCP server 'filesystem' does not work: it ended with status 1"),
    ],
)
def test_a_server_or_folder_that_is_missing(
    rehearse: Rehearse,
    tmp_path: Path,
    servers: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: dict[str, str],
    sentence: str,
) -> None:
    """A program or folder that is not there ends the run before its first episode."""
    if "program" in change:
        servers.write_text(json.dumps({"filesystem": {"stdio": {"command": change["program"]}}}))
    monkeypatch.setenv("FILESYSTEM_TEST_ROOT", change.get("root", str(MARK / "test_environments")))
    more = ("--suite-servers", servers, "--mcp-env", "FILESYSTEM_TEST_ROOT", "-p", "noop")
    status, _, err = rehearse(*mark(*more, "-o", tmp_path / "run"))
    assert (status, len(err.splitlines())) == (2, 1), err
    assert "task 'filesystem_shelves_list_books'" in err
    assert sentence in err
    assert not (tmp_path / "run").exists()


def test_needs_are_listed_before_anything_starts(rehearse: Rehearse, servers: Path) -> None:
    """For each category: how many tasks can be played here, and what the others lack."""
    found = json_of(rehearse, "eval", "needs", "mcp_universe", "--suite-path", UNIVERSE)
    assert [(one["category"], one["tasks"], one["ready"]) for one in found] == [
        ("web_search", 2, 2),
        ("multi_server", 1, 0),
    ]
    assert list(found[1]["missing"].values()) == [1, 1]
    asked = ("eval", "needs", "mcpmark", "--suite-path", MARK, "--suite-servers", servers)
    found = {one["category"]: one for one in json_of(rehearse, *asked)}
    assert found["filesystem"]["ready"] == 2
    assert any("pipx" in need or "psql" in need for need in found["postgres"]["missing"])


@pytest.mark.slow
def test_an_episode_cannot_begin_in_the_middle(
    rehearse: Rehearse, tmp_path: Path, servers: Path
) -> None:
    """The state of such a world is not known, so nothing is forked from it."""
    run = tmp_path / "run"
    json_of(rehearse, *mark("--suite-servers", servers, "-p", "noop", "-o", run))
    more = ("-p", "noop", "-o", tmp_path / "fork")
    status, _, err = rehearse("run", *more, "--from", f"{run}/e000000@1")
    assert (status, len(err.splitlines())) == (2, 1), err
    assert "do not reveal their state, so no episode can begin in the middle" in err


def test_an_interpreter_may_be_named_from_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks run in folders of their own: a relative path is that from where the command runs, a
    bare name is looked up."""
    monkeypatch.chdir(UNIVERSE)
    assert ServedSettings("env/bin/python").interpreter == str(UNIVERSE / "env" / "bin" / "python")
    assert ServedSettings("python3").interpreter == "python3"


_AGENT = """
class FunctionCall:
    def __init__(self, manager, llm, config):
        self._config = type("Config", (), config)

    def _get_output_format_prompt(self, form):
        return f"FORM {sorted(form)}"

    def _build_prompt(self, question):
        return f"{self._config.instruction} {self._config.max_iterations} steps. {question}"
"""
_BENCHMARK = """kind: agent
spec: {name: librarian, type: react, config: {instruction: Be a librarian., max_iterations: 3}}
---
kind: agent
spec: {name: other, config: {max_iterations: 9}}
---
kind: benchmark
spec: {agent: librarian, tasks: []}
"""


def checkout_with_agent(folder: Path) -> Path:
    """The checkout, with an agent of our own in the place of upstream's."""
    checkout = folder / "checkout"
    shutil.copytree(UNIVERSE, checkout)
    agent = checkout / "mcpuniverse" / "agent"
    agent.mkdir()
    (agent / "__init__.py").touch()
    (agent / "function_call.py").write_text(_AGENT)
    tasks = checkout / "mcpuniverse" / "benchmark" / "configs" / "mcpuniverse"
    (tasks / "web_search.yaml").write_text(_BENCHMARK)
    (tasks / "multi_server.yaml").write_text(_BENCHMARK.replace("iterations: 3", "iterations: 5"))
    return checkout


@pytest.mark.slow  # worlds of servers that are started
def test_a_model_is_asked_as_mcp_universes_agent_asks_it(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its prompt is the only message, the steps are counted down, sampling is upstream's, and an
    agent that gives no answer is judged by the apology that upstream gives in its name."""
    pytest.importorskip("yaml")
    checkout, model, run = checkout_with_agent(tmp_path), Librarian(), tmp_path / "run"
    monkeypatch.setattr(mcp_universe, "DIGEST", mcp_universe.digest_of(checkout / "mcpuniverse"))
    asked = ("eval", "mcp_universe", "--suite-path", checkout, "--task")
    with served(model) as server:
        one = (*asked, "web_search_books_task_0001", *model_at(server.url), "-o", run)
        report = json_of(rehearse, *one)
    assert (report["suite"], report["scores"]) == ("mcp_universe", {"web_search": 0.0})
    first, second, *_ = [body for body in model.bodies if "tools" in body]
    sampling = {
        name: first[name] for name in ("temperature", "top_p", "seed", "max_completion_tokens")
    }
    assert sampling == {
        "temperature": 1.0,
        "top_p": 1.0,
        "seed": 12345,
        "max_completion_tokens": 10_000,
    }
    (prompt,) = first["messages"]
    assert prompt["content"].startswith("Be a librarian. 3 steps. ")
    assert prompt["content"].endswith("\n            FORM ['copies']")
    assert second["messages"][-1]["content"] == "You have 2 steps remaining. Please continue."
    with open_reader(run) as reader:
        (trajectory,) = reader.trajectories()
    assert trajectory.ended is not None
    assert trajectory.ended.answer.startswith("I'm sorry, but I couldn't find")
    assert len(trajectory.steps) == 3
    assert json_of(rehearse, "replay", run)["divergences"] == []
    assert json_of(rehearse, "judge", run)["labels"]["agent_error"] == 1


@pytest.mark.parametrize(
    ("change", "words", "expected"),
    [
        ("agent", (), "are not those of MCP-Universe 1.1.3, so scores would not compare"),
        ("", ("--max-steps", "9"), "names its limit of steps; --prompts ours plays another number"),
        ("", ("--category", "all"), "the categories differ in their limit of steps"),
        ("yaml", (), "web_search.yaml: this file, which names the limit of upstream's agent, is"),
        ("python", (), "cannot list the prompts of MCP-Universe's agent ("),
    ],
)
def test_a_checkout_that_cannot_be_asked_like_upstream_is_refused(
    rehearse: Rehearse,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
    words: tuple[str, ...],
    expected: str,
) -> None:
    """One sentence says why; --prompts ours plays it."""
    pytest.importorskip("yaml")
    checkout = checkout_with_agent(tmp_path)
    if change == "python":
        (checkout / "mcpuniverse" / "agent" / "function_call.py").write_text("import nowhere_42")
    if change != "agent":
        digest = mcp_universe.digest_of(checkout / "mcpuniverse")
        monkeypatch.setattr(mcp_universe, "DIGEST", digest)
    if change == "yaml":
        next(checkout.rglob("web_search.yaml")).unlink()
    chosen = ("--category", "web_search")
    if words[:1] == ("--category",):
        chosen, words = (
            ("--task", "web_search_books_task_0001"),
            ("--task", "multi_server_desk_task_0001"),
        )
    status, _, err = rehearse(
        "eval", "mcp_universe", "--suite-path", checkout, *chosen, *words, "-p", "noop"
    )
    assert status != 0
    assert expected in err
    assert "Traceback" not in err
