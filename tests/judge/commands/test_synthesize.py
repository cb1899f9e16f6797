"""The verb synthesise, as a user meets it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scenarios.format import read
from tests.support.cli import Rehearse
from tests.support.synth_worlds import BIKES


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Where the scripted model is."""
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
    """What every call has."""
    return ["-o", out, "-m", "m", "--base-url", url, "--tasks", 3, "--workers", 1]


def test_worlds_are_made_and_told(
    rehearse: Rehearse, seeds: Path, tmp_path: Path, url: str
) -> None:
    """Tables for people, the report as JSON, packages and AWM's files on disk; done again, nothing
    is asked."""
    wanted = [seeds, *flags(tmp_path / "out", url), "--format", "awm", "--json"]
    status, out, err = rehearse("synthesise", *wanted, tmp_path / "report.json")
    assert status == 0, err
    assert "1 worlds of 1 scenarios (0 refused), 3 tasks, 5 tools" in out
    report = json.loads((tmp_path / "report.json").read_bytes())
    assert (report["worlds"], report["tasks"], report["tools"]) == (1, 3, 5)
    assert (report["failed"], report["cost_usd"]) == ([], None)
    assert len(read(tmp_path / "out/worlds" / BIKES.key).tasks) == 3
    assert len(list((tmp_path / "out/awm").glob("gen_*.jsonl"))) == 8
    status, out, err = rehearse("synthesise", *wanted, "-")
    assert (status, json.loads(out)) == (0, report)
    rehearsed = tmp_path / "out/worlds" / BIKES.key
    status, out, err = rehearse("run", rehearsed, "-p", "oracle", "-o", tmp_path / "run")
    assert status == 0, err
    assert "3 episodes, 10 steps, pass rate 1.000" in out


@pytest.mark.parametrize(
    ("spoil", "more", "sentence"),
    [
        ("seed", [], "seeds.jsonl: line 2: object missing required field `description`"),
        ("", ["--base-url", "http://127.0.0.1:9/v1", "--attempts", 1], "127.0.0.1:9/v1: "),
        ("", ["--prompts", "nowhere"], "nowhere: the folder of prompts does not exist"),
        ("", ["--tables", 0], "--tables: must be at least 1, not 0"),
        ("", ["--least-tasks", 4], "--least-tasks: must be at most --tasks 3, not 4"),
        ("", ["--workers", 999_999], "--workers: must be at most 256, not 999999"),
        ("prompts", ["--prompts", "prompts"], "prompt_tasks: the first run had '"),
        ("", ["--same", 1.5], "--same: must be above 0 and at most 1, not 1.5"),
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
    """Exit status 2, and what is wrong by file or flag."""
    out = tmp_path / "out"
    if spoil == "seed":
        seeds.write_text(seeds.read_text() + '{"name": "Half"}\n')
    if spoil == "folder":
        out.mkdir()
        (out / "notes.txt").touch()
    if spoil == "prompts":
        rehearse("synthesise", seeds, *flags(out, "http://127.0.0.1:9/v1"), "--attempts", 1)
        mine = tmp_path / "prompts"
        mine.mkdir()
        (mine / "tasks.md").write_text("version: mine\n--- user\nWrite tasks.\n")
        more = ["--prompts", mine]
    if spoil == "record":
        rehearse("synthesise", seeds, *flags(out, "http://127.0.0.1:9/v1"), "--attempts", 1)
        file = out / "stages" / BIKES.key / "tasks.json"
        file.parent.mkdir(parents=True)
        file.write_bytes(b'{"stage": "tasks", "inp')
    status, told, err = rehearse("synthesise", seeds, *flags(out, url), *more)
    assert (status, told) == (2, ""), err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert sentence in err


def test_a_budget_for_nothing_is_told(
    rehearse: Rehearse, seeds: Path, tmp_path: Path, url: str
) -> None:
    """Also where it ends before there is a scenario."""
    prices = tmp_path / "prices.toml"
    prices.write_text("[models.m]\ninput = 1\noutput = 1000\n")
    more = ["--prices", prices, "--budget", 0.0001]
    status, told, err = rehearse("synthesise", seeds, *flags(tmp_path / "out", url), *more)
    assert status == 1, err
    assert "unfinished budget: of 0.00 USD 0.0000 are spent or may be" in told
