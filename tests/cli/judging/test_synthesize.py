"""The command `synthesise`, as a user calls it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rehearsal_room.scenarios.format import read
from tests.support.cli import Rehearse
from tests.support.synth_worlds import BIKES

pytestmark = pytest.mark.usefixtures("kept_fork_servers")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The URL of the scripted model."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.synth_server"], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().decode().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def seeds(tmp_path: Path) -> Path:
    """A file with one seed."""
    path = tmp_path / "seeds.jsonl"
    path.write_text(json.dumps({"name": BIKES.name, "description": BIKES.description}) + "\n")
    return path


def flags(out: Path, url: str) -> list[object]:
    """The flags of every call."""
    return ["-o", out, "-m", "m", "--base-url", url, "--tasks", 3, "--workers", 1]


@pytest.mark.slow
def test_worlds_are_made_and_reported(
    rehearse: Rehearse, seeds: Path, tmp_path: Path, url: str
) -> None:
    """Tables for people, the report as JSON, packages and AWM's files on disk; a second call asks
    the model nothing. The prompts of `--dry-prompts` then contain the results of the stages."""
    command = [seeds, *flags(tmp_path / "out", url), "--format", "awm", "--json"]
    status, out, err = rehearse("worlds", "synthesise", *command, tmp_path / "report.json")
    assert status == 0, err
    assert "1 worlds of 1 scenarios (0 refused), 3 tasks, 5 tools" in out
    report = json.loads((tmp_path / "report.json").read_bytes())
    assert (report["worlds"], report["tasks"], report["tools"]) == (1, 3, 5)
    assert (report["failed"], report["cost_usd"]) == ([], None)
    assert len(read(tmp_path / "out/worlds" / BIKES.key).tasks) == 3
    assert len(list((tmp_path / "out/awm").glob("gen_*.jsonl"))) == 8
    status, out, err = rehearse("worlds", "synthesise", *command, "-")
    assert (status, json.loads(out)) == (0, report)
    rehearsed = tmp_path / "out/worlds" / BIKES.key
    status, out, err = rehearse("run", rehearsed, "-p", "oracle", "-o", tmp_path / "run")
    assert status == 0, err
    assert "3 episodes, 10 steps, pass rate 1.000" in out
    status, out, err = rehearse(
        "worlds", "synthesise", seeds, "--dry-prompts", "-o", tmp_path / "out"
    )
    assert (status, err) == (0, "")
    _assert_complete(out.partition("=== tasks")[2].partition("=== feedback")[0].split("=== "))


def _assert_complete(parts: list[str]) -> None:
    """Time, user and features are in every stage's prompt; one prompt is there for each task."""
    assert len(parts) == 5 + 3
    assert all("2026-03-14T09:30:00Z" in part and "\n- loans" in part for part in parts)
    assert all("Noor Haddad (role desk, id noor.haddad)" in part for part in parts[1:])
    assert "CREATE TABLE hires (" in parts[4]
    assert ["Task lend (kind: change)" in part for part in parts[5:]] == [True, False, False]
    assert all("def start_hire(" in part for part in parts[5:])
    assert "«" not in "".join(parts)


def test_prompts_are_printed_without_a_model(
    rehearse: Rehearse, seeds: Path, tmp_path: Path
) -> None:
    """Every prompt in the order of the stages, a user's own among them; nothing is written."""
    mine = tmp_path / "prompts"
    mine.mkdir()
    (mine / "schema.md").write_text("version: mine\n--- user\nAt {{clock}}: {{tables}} tables.\n")
    before = sorted(tmp_path.rglob("*"))
    more = ["--prompts", mine, "--tables", 4, "-o", tmp_path / "out"]
    status, out, err = rehearse("worlds", "synthesise", seeds, "--dry-prompts", *more)
    assert (status, err) == (0, "")
    headings = [line for line in out.splitlines() if line.startswith("=== ")]
    names = [
        "classify",
        "invent",
        "tasks",
        "schema",
        "data",
        "tools",
        "code",
        "verify",
        "feedback",
        "repair",
        "prove",
    ]
    assert [heading.split(",")[0].removeprefix("=== ") for heading in headings] == names
    assert "--- user\nAt 2026-03-14T09:30:00Z: about 4 (2 to 6) tables.\n" in out
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("spoil", "more", "sentence"),
    [
        ("seed", [], "seeds.jsonl: line 2: object missing required field `description`"),
        ("", ["--base-url", "http://127.0.0.1:9/v1", "--attempts", 1], "127.0.0.1:9/v1: "),
        ("", ["--prompts", "nowhere"], "nowhere: the folder of prompts does not exist"),
        ("", ["--tables", 0], "--tables: must be at least 1, found 0"),
        ("", ["--least-tasks", 4], "--least-tasks: must be at most --tasks 3, found 4"),
        ("", ["--workers", 999_999], "--workers: must be at least 0 and at most 256, found 999999"),
        ("prompts", ["--prompts", "prompts"], "prompt_tasks: the first run had '"),
        ("", ["--same", 1.5], "--same: must be more than 0 and at most 1, found 1.5"),
        ("", ["--budget", 1], "--budget: spending can be limited only where --prices are given"),
        ("", ["--base-url", "ftp://x"], "base_url: expected a URL"),
        ("folder", [], "it is not empty and has no synthesis.toml; choose another folder"),
        ("record", [], "stages/city_bike_hire/tasks.json: "),
    ],
)
def test_bad_input_is_one_sentence(
    rehearse: Rehearse,
    seeds: Path,
    tmp_path: Path,
    url: str,
    spoil: str,
    more: list[object],
    sentence: str,
) -> None:
    """Exit status 2, and a sentence that names file or flag."""
    out = tmp_path / "out"
    if spoil == "seed":
        seeds.write_text(seeds.read_text() + '{"name": "Half"}\n')
    if spoil == "folder":
        out.mkdir()
        (out / "notes.txt").touch()
    if spoil == "prompts":
        rehearse(
            "worlds", "synthesise", seeds, *flags(out, "http://127.0.0.1:9/v1"), "--attempts", 1
        )
        mine = tmp_path / "prompts"
        mine.mkdir()
        (mine / "tasks.md").write_text("version: mine\n--- user\nWrite tasks.\n")
        more = ["--prompts", mine]
    if spoil == "record":
        rehearse(
            "worlds", "synthesise", seeds, *flags(out, "http://127.0.0.1:9/v1"), "--attempts", 1
        )
        file = out / "stages" / BIKES.key / "tasks.json"
        file.parent.mkdir(parents=True)
        file.write_bytes(b'{"stage": "tasks", "inp')
    status, text, err = rehearse("worlds", "synthesise", seeds, *flags(out, url), *more)
    assert (status, text) == (2, ""), err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert sentence in err


def test_a_budget_of_zero_is_reported(
    rehearse: Rehearse, seeds: Path, tmp_path: Path, url: str
) -> None:
    """Even when it is exhausted before there is a scenario."""
    prices = tmp_path / "prices.toml"
    prices.write_text("[models.m]\ninput = 1\noutput = 1000\n")
    more = ["--prices", prices, "--budget", 0.0001]
    status, text, err = rehearse(
        "worlds", "synthesise", seeds, *flags(tmp_path / "out", url), *more
    )
    assert status == 1, err
    assert "unfinished budget exhausted: 0.00 of 0.0001 USD spent or reserved" in text
