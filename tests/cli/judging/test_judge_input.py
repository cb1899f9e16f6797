"""Judging with bad input: one sentence that names file and field, exit status 2, nothing lost."""

import json
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from rehearsal_room.judge.llm.rubric import rubric_text
from tests.support.cli import Rehearse
from tests.support.judge_server import Speaks, biased
from tests.support.judged_runs import judge, no_environment, run_of_oracles, served
from tests.support.paths import LIBRARY

URL = ("--base-url", "http://127.0.0.1:9/v1")
ASK = ("judge", "RUN", "-m", "m", *URL)
STUDY = ("judge", "study", "RUN", "-m", "m", *URL)
PRICED = ("--prices", "prices.toml")
Files = dict[str, str | bytes]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests go to the server of the test, whatever the environment names."""
    no_environment(monkeypatch)


def prices(text: str) -> Files:
    return {"prices.toml": text}


def rubric(old: str, new: str) -> Files:
    text = rubric_text()
    assert text.count(old) == 1, old
    return {"mine.toml": text.replace(old, new)}


def labels(*lines: dict[str, Any] | str) -> Files:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    return {"labels.jsonl": "".join(f"{line}\n" for line in texts)}


KNOWN = {"episode": "e000000", "label": "completed", "labeller": "ann"}
_TABLE = "[models.m]\ninput = 1.0\noutput = 2.0\n"

# What is in the folder, what is asked, and what the sentence must name.
BAD: dict[str, tuple[Files, tuple[object, ...], tuple[str, ...]]] = {
    "a rubric that is not TOML": (
        {"mine.toml": "name = "},
        (*ASK, "--rubric", "mine.toml"),
        ("rubric", "mine.toml"),
    ),
    "a rubric without a label": (
        rubric("\nagent_error = ", "\nagent_mistake = "),
        (*ASK, "--rubric", "mine.toml"),
        ("mine.toml", "labels"),
    ),
    "an empty rule": (
        rubric('role = """', 'role = ""\nroles = """'),
        (*ASK, "--rubric", "mine.toml"),
        ("mine.toml", "roles"),
    ),
    "a rubric that is not there": (
        {},
        (*ASK, "--rubric", "missing.toml"),
        ("missing.toml",),
    ),
    "an unknown mode": ({}, ("judge", "RUN", "--mode", "oracle"), ("--mode", "'oracle'")),
    "a mode without a model": (
        {"run/judge.toml": ""},
        ("judge", "RUN", "--mode", "llm"),
        ("models", "'llm'"),
    ),
    "two judges of one name": ({}, (*ASK, "--judge-model", "m"), ("models", "'m' is named twice")),
    "a model for a mode": (
        {},
        ("judge", "RUN", "--judge", "gpt-5"),
        ("'gpt-5' is not one of code, llm, hybrid; name a model with --judge-model",),
    ),
    "a model for code": (
        {},
        ("judge", "RUN", "--judge", "code", "-m", "m"),
        ("--model: judge 'code' does not ask models; choose --judge llm or --judge hybrid",),
    ),
    "an unknown vote": ({}, (*ASK, "--vote", "loudest"), ("--vote", "'loudest'")),
    "unknown rewards": ({}, ("judge", "RUN", "--rewards", "gold"), ("--rewards", "'gold'")),
    "prices without the model": (
        prices('[models."other"]\ninput = 1.0\noutput = 2.0\n'),
        (*ASK, *PRICED),
        ("prices.toml", 'models."m"', "has no price"),
    ),
    "prices with a hole": (
        prices("[models.m]\ninput = 1.0\n"),
        (*ASK, *PRICED),
        ("prices.toml", "models.m.", "output"),
    ),
    "a price that is a word": (
        prices('[models.m]\ninput = "cheap"\noutput = 2.0\n'),
        (*ASK, *PRICED),
        ("prices.toml", "models.m.", "input"),
    ),
    "a price below zero": (
        prices("[models.m]\ninput = -1.0\noutput = 2.0\n"),
        (*ASK, *PRICED),
        ("prices.toml", "models.m.", "input"),
    ),
    "an unknown kind of price": (
        prices(f"{_TABLE}thinking = 3.0\n"),
        (*ASK, *PRICED),
        ("prices.toml", "models.m.", "thinking"),
    ),
    "a budget without prices": ({}, (*ASK, "--budget", 5), ("budget", "prices")),
    "a budget below zero": ({}, (*ASK, "--budget", -1), ("budget",)),
    "too little evidence": ({}, (*ASK, "--evidence-tokens", 600), ("evidence_tokens", "600")),
    "no concurrency": ({}, (*ASK, "-c", 0), ("concurrency",)),
    "no time": ({}, (*ASK, "--timeout", 0), ("timeout",)),
    "a temperature that is none": ({}, (*ASK, "--temperature", "nan"), ("temperature", "nan")),
    "a cache that is none": (
        {"cache.sqlite": b"this is a diary, not a database. " * 50},
        (*ASK, "--cache", "cache.sqlite"),
        ("cache.sqlite", "verdict cache"),
    ),
    "a cache that is a folder": ({}, (*ASK, "--cache", "RUN"), ("run", "verdict cache")),
    "judge.toml that is not TOML": (
        {"run/judge.toml": "mode = "},
        ("judge", "RUN"),
        ("judge.toml",),
    ),
    "judge.toml with an unknown field": (
        {"run/judge.toml": 'mode = "code"\nmood = "mild"\n'},
        ("judge", "RUN"),
        ("judge.toml", "mood"),
    ),
    "judge.toml with a wrong type": (
        {"run/judge.toml": 'concurrency = "many"\n'},
        ("judge", "RUN"),
        ("judge.toml", "concurrency"),
    ),
    "labels that are not there": ({}, (*STUDY, "--labels", "labels.jsonl"), ("labels.jsonl",)),
    "labels of an unknown episode": (
        labels(KNOWN, KNOWN | {"episode": "e999999"}),
        (*STUDY, "--labels", "labels.jsonl"),
        ("labels.jsonl", "line 2", "episode", "e999999"),
    ),
    "labels of another run": (
        labels(KNOWN | {"digest": "00"}),
        (*STUDY, "--labels", "labels.jsonl"),
        ("labels.jsonl", "line 1", "digest"),
    ),
    "an unknown label": (
        labels(KNOWN | {"label": "great"}),
        (*STUDY, "--labels", "labels.jsonl"),
        ("labels.jsonl", "line 1", "label", "partially_completed"),
    ),
    "a line that is cut in the middle of the labels": (
        labels('{"episode": "e0000', KNOWN),
        (*STUDY, "--labels", "labels.jsonl"),
        ("labels.jsonl", "line 1"),
    ),
    "a sample of none": ({}, (*STUDY, "--sample", 0), ("--sample",)),
    "a study into nowhere": ({}, (*STUDY, "--json", "no/x.json"), ("--json", "no/x.json")),
    "labels that cannot be added to": (
        {"labels.jsonl": "no labels\n"},
        ("judge", "label", "RUN", "-o", "labels.jsonl"),
        ("labels.jsonl", "line 1"),
    ),
    "no such run": ({}, ("judge", "nowhere", "-m", "m"), ("nowhere",)),
}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the run that each test copies."""
    return tmp_path_factory.mktemp("original") / "run"


@pytest.fixture
def run(
    rehearse: Rehearse, original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A run of 6 episodes that a model has judged, in the working folder."""
    if not original.exists():
        run_of_oracles(rehearse, original)
        with served(Speaks(biased())) as server:
            judge(rehearse, original, server.url)
    monkeypatch.chdir(tmp_path)
    return Path(copytree(original, tmp_path / "run"))


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence_and_changes_nothing(
    rehearse: Rehearse, run: Path, tmp_path: Path, case: str
) -> None:
    """Exit status 2, a sentence that names file and field, and no changed file."""
    files, arguments, words = BAD[case]
    for name, text in files.items():
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    before = contents(tmp_path)
    status, out, err = rehearse(*(run if part == "RUN" else part for part in arguments))

    assert (status, out) == (2, ""), err
    assert "Traceback" not in err
    assert len([line for line in err.splitlines() if line.lower().startswith("error: ")]) == 1
    assert [word for word in words if word not in err] == []
    assert contents(tmp_path) == before


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_with_a_bad_judge_does_not_begin(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A judge that cannot be used is refused before the first episode, and no folder is left."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.toml").write_text("name = ")
    begin = ("run", LIBRARY, "-o", "run", "--judge", "hybrid")
    model = ("--judge-model", "m")
    cases: list[tuple[tuple[object, ...], str]] = [
        ((), "judge_models"),
        ((*model, "--judge-rubric", "bad.toml"), "bad.toml"),
        ((*model, "--judge-prices", "bad.toml"), "bad.toml"),
        ((*model, "--judge-budget", 5), "budget"),
        ((*model, "--judge-concurrency", 0), "--judge-concurrency"),
    ]
    for flags, words in cases:
        status, out, err = rehearse(*begin, *flags)
        assert (status, out) == (2, ""), err
        assert words in err
    assert [path.name for path in tmp_path.iterdir()] == ["bad.toml"]


def test_a_truncated_last_line_of_labels_is_ignored(
    rehearse: Rehearse, run: Path, tmp_path: Path
) -> None:
    """A file of labels whose last line a crash truncated is read up to that line."""
    path = tmp_path / "labels.jsonl"
    path.write_text(f'{json.dumps(KNOWN)}\n{{"episode": "e0000')
    with served(Speaks(biased())) as server:
        flags = ("-m", "m", "--base-url", server.url, "--no-rewordings", "--repeats", 1)
        status, out, err = rehearse("judge", "study", run, *flags, "--labels", path, "--json", "-")

    assert status == 0, err
    assert json.loads(out)["human"]["episodes"] == 1
