"""From the command of an MCP server to a gated task, a verdict, a replay and a fork.

The server is our help desk on Python's sqlite3; `just mcp-servers` does the same with servers of
the registries.
"""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from rehearsal_room.authoring.server_worlds.package_text import ServerTexts, write_head
from rehearsal_room.authoring.server_worlds.watching import Found
from rehearsal_room.envpool.workers.sandbox import why_no_bubblewrap
from tests.support.cli import Rehearse, json_of
from tests.support.desk_worlds import DESK, VERIFY, write_desk
from tests.support.strangers import begun_by_another

DONE = "It is done."


@pytest.mark.slow
@pytest.mark.usefixtures("quick_gate")
def test_a_server_becomes_a_gated_world(rehearse: Rehearse, tmp_path: Path) -> None:
    """`new world --mcp` finds the state and a first task; the gate finds no fault; the solution is
    completed; its episodes are replayed with equal texts and rows."""
    status, out, err = rehearse(
        *("new", "world", "front_desk", "--mcp", f"{DESK} {{scratch}}/desk.db", "-o", tmp_path)
    )
    assert (status, err) == (0, "")
    folder = tmp_path / "front_desk"
    assert "7 tools; it writes desk.db" in out and f"rehearse worlds check {folder}" in out
    assert 'sqlite = "{scratch}/desk.db"' in (folder / "scenario.toml").read_text()
    gate = json_of(rehearse, "worlds", "check", folder)
    assert (gate["failures"], gate["tasks"], gate["tools"]) == ([], 1, 7)
    assert gate["mutants"] == gate["mutants_caught"] > 0
    run = tmp_path / "run"
    assert json_of(rehearse, "run", folder, "-p", "oracle", "-n", "3", "-o", run)["pass_rate"] == 1
    assert json_of(rehearse, "replay", run)["divergences"] == []


@pytest.mark.slow  # it starts ten servers
@pytest.mark.parametrize(("how", "said"), [("reopens", "which it gave"), ("rolls", "sets the")])
def test_the_log_of_a_large_database_is_tried(
    rehearse: Rehearse, tmp_path: Path, how: str, said: str
) -> None:
    """`new world --mcp` tries whether a server does the same with a write-ahead log, and writes
    that down; one that sets another mode is left alone, and its world is as it was."""
    (tmp_path / "set_up").mkdir()
    with closing(sqlite3.connect(tmp_path / "set_up" / "desk.db")) as db:
        db.execute("CREATE TABLE files (data BLOB)")
        db.execute("INSERT INTO files VALUES (zeroblob(5000000))")
        db.commit()
    status, out, _ = rehearse(
        *("new", "world", "front_desk", "--mcp", f"{DESK} {{scratch}}/desk.db {how}"),
        *("--seed", tmp_path / "set_up", "-o", tmp_path),
    )
    assert status == 0 and "journal of its large database: " in out and said in out
    folder = tmp_path / "front_desk"
    text = (folder / "scenario.toml").read_text()
    assert ('journal = "wal"' in text) == (how == "reopens")
    report = json_of(rehearse, "run", folder, "-p", "oracle", "-o", tmp_path / "run")
    assert report["pass_rate"] == 1
    assert json_of(rehearse, "replay", tmp_path / "run")["divergences"] == []


def test_folders_and_links_are_state(rehearse: Rehearse, tmp_path: Path) -> None:
    """A server that makes nothing but empty folders and links has its state on disk."""
    command = f"{DESK} x forgetful folders {{scratch}}/desk"
    status, out, err = rehearse("new", "world", "front_desk", "--mcp", command, "-o", tmp_path)
    assert (status, err) == (0, "") and "its first task: " in out
    folder = tmp_path / "front_desk"
    assert 'folder = "{scratch}/desk"' in (folder / "scenario.toml").read_text()
    run = tmp_path / "run"
    assert json_of(rehearse, "run", folder, "-p", "oracle", "-o", run)["pass_rate"] == 1
    assert json_of(rehearse, "replay", run)["divergences"] == []


def test_a_call_that_breaks_the_world_is_named(rehearse: Rehearse, tmp_path: Path) -> None:
    """Where no call gives a first task, the command prints why the world broke."""
    command = f"{DESK} x forgetful bytes {{scratch}}/desk"
    status, out, _ = rehearse("new", "world", "front_desk", "--mcp", command, "-o", tmp_path)
    assert status == 0 and "no call changed a row" in out
    assert "the world broke in a call of add_ticket: " in out and "a name that is not UTF-8" in out


def test_all_databases_are_declared(tmp_path: Path) -> None:
    """Tables of each have its file's name in front; of two with one name the second is named in a
    comment."""
    texts = ServerTexts("shop", "shop", (), {}, "2026-03-02T09:00:00Z")
    write_head(tmp_path, texts, Found((), ("a/crm.db", "b/crm.db", "stock.db"), ("log.txt",)))
    text = (tmp_path / "scenario.toml").read_text()
    assert 'sqlite = ["{scratch}/a/crm.db", "{scratch}/stock.db"]' in text
    assert "# It writes b/crm.db, log.txt, too." in text


def play(rehearse: Rehearse, folder: Path, run: Path, calls: list[object], answer: str) -> str:
    """The label of a scripted episode of the task `open`."""
    script = run.parent / f"{run.name}.jsonl"
    line = {"scenario": "desk", "task": "open", "calls": calls, "answer": answer}
    script.write_text(json.dumps(line) + "\n")
    report = json_of(
        *(rehearse, "run", f"{folder}:open", "-p", "scripted", "--script", script, "-o", run)
    )
    (label,) = report["labels"]
    return str(label)


def test_the_false_pass_is_an_error(rehearse: Rehearse, tmp_path: Path) -> None:
    """An agent that does the task and takes all pens, too, fails; so does one that says it did; and
    the failed episode shows which call changed rows without being asked. It is played on from a
    turn of its log."""
    folder = write_desk(tmp_path)
    right = {"name": "add_ticket", "arguments": {"title": "Door sticks", "owner": "ada"}}
    harm = {"name": "take", "arguments": {"sku": "pen", "qty": 40}}
    assert play(rehearse, folder, tmp_path / "right", [right], DONE) == "completed"
    assert play(rehearse, folder, tmp_path / "lie", [], DONE) == "agent_error"
    assert play(rehearse, folder, tmp_path / "harm", [right, harm], DONE) == "agent_error"
    kinds = json_of(rehearse, "failures", tmp_path / "harm")["kinds"]
    assert list(kinds) == ["unasked_change"]
    why = kinds["unasked_change"]["examples"][0]["why"]
    assert "take(sku='pen', qty=40) changed stock pen" in why
    forked = json_of(
        *(rehearse, "run", "--from", f"{tmp_path / 'harm'}/e000000@1", "-p", "noop"),
        *("-o", tmp_path / "forked"),
    )
    assert forked["episodes"] == 1
    assert json_of(rehearse, "replay", tmp_path / "forked")["divergences"] == []


def test_an_unseeded_server_replays_under_its_logged_ids(
    rehearse: Rehearse, tmp_path: Path
) -> None:
    """Its episodes are replayed, and played on, with the ids that the agent saw; the replay says
    how many stood for others. With the server seeded there are none."""
    folder, run = write_desk(tmp_path, server="seeded = false"), tmp_path / "run"
    calls = [{"name": "add_ticket", "arguments": {"title": "Door sticks", "owner": "ada"}}]
    assert play(rehearse, folder, run, calls, DONE) == "completed"
    status, out, _ = rehearse("replay", run)
    assert status == 0 and "stood for the logged ones" in out
    assert json_of(rehearse, "replay", run)["own_ids"] >= 2
    forked = rehearse("run", "--from", f"{run}/e000000@1", "-p", "noop", "-o", tmp_path / "forked")
    assert forked[0] == 0


@pytest.mark.slow
@pytest.mark.usefixtures("quick_gate")
def test_the_gate_finds_a_verifier_that_lets_harm_pass(rehearse: Rehearse, tmp_path: Path) -> None:
    """Without `nothing_else`, unwanted writes that the gate finds by probing are completed, which
    is a failure of the task."""
    folder = write_desk(tmp_path, verify=VERIFY.replace("    check.nothing_else()\n", ""))
    status, out, _ = rehearse("worlds", "check", folder, "--json", tmp_path / "gate.json")
    gate = json.loads((tmp_path / "gate.json").read_text())
    assert status == 1
    assert {one["check"] for one in gate["failures"]} == {"mutants"}
    assert "mutants desk/open" in out


@pytest.mark.parametrize("flags", [("--isolate",), ("--sandbox", "required")])
def test_the_gate_runs_no_verifier_that_is_isolated(
    rehearse: Rehearse, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    """It says so, and neither the server nor verify.py has run."""
    ran = tmp_path / "ran"
    spy = f"open({str(ran)!r}, 'w').close()\n"
    folder = write_desk(tmp_path, verify=spy + VERIFY)
    status, out, _ = rehearse("worlds", "check", folder, *flags)
    assert status == 1 and "its verify.py would run in this process" in " ".join(out.split())
    assert not ran.exists()


@pytest.mark.slow
def test_somebody_elses_run_starts_a_held_server(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run folder that another user began names a package, whose command is started under
    bubblewrap only: it reaches no file of the user. --trust-run starts it as it is."""
    if why := why_no_bubblewrap():
        pytest.skip(why)
    folder, run, outside = write_desk(tmp_path), tmp_path / "run", tmp_path / "outside"
    calls = [{"name": "export", "arguments": {"path": str(outside)}}]
    play(rehearse, folder, run, calls, DONE)
    outside.unlink()
    begun_by_another(monkeypatch, tmp_path)
    status, out, _ = rehearse("replay", run)
    assert status == 1 and "Read-only" in out
    assert rehearse("judge", run)[0] == 0
    assert not outside.exists()
    assert rehearse("replay", run, "--trust-run")[0] == 0
    assert outside.exists()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (f"{DESK} {{scratch}}/desk.db forgetful", "its state is in memory or elsewhere"),
        ("no-such-program", "there is no program 'no-such-program'"),
        ("python -c 'print(1)'", "does not work: it ended with status 0"),
        ("", "the MCP server is empty"),
    ],
)
def test_a_server_that_makes_no_world_is_one_sentence(
    rehearse: Rehearse, tmp_path: Path, command: str, said: str
) -> None:
    """With the reason, and nothing is written."""
    where = tmp_path / "worlds"
    status, out, err = rehearse("new", "world", "front_desk", "--mcp", command, "-o", where)
    assert (status, out) == (2, "")
    assert err.startswith("error: ") and err.count("\n") == 1 and said in err
    assert not where.exists() or list(where.iterdir()) == []
