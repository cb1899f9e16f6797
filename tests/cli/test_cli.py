"""The command line: its contract of exit statuses, JSON fields and sentences."""

import json
import re
import subprocess
import sys
import tomllib
from itertools import product
from pathlib import Path

import pytest

from rehearsal_room.harness.core.errors import LogError
from rehearsal_room.harness.log.schema import LOG_NAME
from rehearsal_room.harness.setup.run_folder import has_episodes
from rehearsal_room.learner.core.errors import CheckpointError
from rehearsal_room.scenarios.catalogue import find
from tests.support.broker import running_broker
from tests.support.budgets import IS_LONG
from tests.support.cli import Rehearse, json_of, without_times, without_trust_line
from tests.support.ledger_world import TASKS, TOOLS, VERIFY, write_package
from tests.support.mini_world import variant

SPREAD = {"p50", "p95", "p99", "max"}


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """The ledger, as a package on disk."""
    return write_package(tmp_path / "ledger")


def test_bench_reports_what_the_contract_names(rehearse: Rehearse) -> None:
    """`bench --json` has every field of the contract, and an oracle passes everything."""
    report = json_of(rehearse, "bench", "shop_support", "-n", 40, "-c", 8)

    assert report["episodes"] == 40
    assert report["pass_rate"] == 1.0
    assert report["endings"] == {"answered": 40}
    assert report["labels"] == {"completed": 40}
    assert report["tool_calls"] == report["steps"] - 40
    for field in ("wall_s", "cpu_s", "episodes_per_s", "tool_calls_per_s", "bare_cpu_s", "rss_mb"):
        assert report[field] > 0, field
    assert report["overhead_ratio"] == pytest.approx(report["cpu_s"] / report["bare_cpu_s"])
    assert "rss_per_live_world_kb" in report
    for field in ("lease_us", "call_us", "step_us", "loop_lag_ms"):
        assert set(report[field]) == SPREAD, field


@pytest.mark.slow
def test_the_noop_policy_passes_nothing(rehearse: Rehearse) -> None:
    """`-p noop` has a pass rate of 0."""
    report = json_of(rehearse, "bench", "claims_desk", "-p", "noop", "-n", 29, "-c", 8)

    assert report["pass_rate"] == 0.0
    assert report["unjudged"] == 0


@pytest.mark.slow
def test_a_sweep_runs_each_value(rehearse: Rehearse) -> None:
    """`bench --sweep` gives a report for each value."""
    sweep = json_of(rehearse, "bench", "shop_support", "-n", 35, "--sweep", "concurrency=1,4")

    assert [run["concurrency"] for run in sweep["runs"]] == [1, 4]
    assert [run["bench"]["pass_rate"] for run in sweep["runs"]] == [1.0, 1.0]


# Each policy and each dialect at least once.
_PAIRS = [
    *(("oracle", "awm"), ("mutant", "hermes"), ("random", "awm-tool"), ("noop", "native")),
]
if IS_LONG:
    _PAIRS = list(
        product(("oracle", "mutant", "random", "noop"), ("native", "hermes", "awm", "awm-tool"))
    )


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "dialect"), _PAIRS)
def test_every_policy_replays_in_every_dialect(
    rehearse: Rehearse, tmp_path: Path, policy: str, dialect: str
) -> None:
    """What was run is replayed without a divergence. (`just test` takes four of the sixteen pairs,
    `just test-long` all of them.)"""
    run = tmp_path / "run"
    report = json_of(
        rehearse,
        *("run", "flight_desk", "-p", policy, "--dialect", dialect, "--history", "last:2"),
        *("-c", 16, "-o", run),
    )
    replay = json_of(rehearse, "replay", run)

    assert report["episodes"] == replay["episodes"] == len(find("flight_desk").default_tasks)
    assert replay["divergences"] == []
    assert json.loads((run / "report.json").read_bytes()) == without_times(report)
    if policy == "oracle":
        assert report["pass_rate"] == 1.0
    if policy == "noop":
        assert report["pass_rate"] == 0.0


@pytest.mark.slow
def test_an_agent_that_follows_awms_format_rules_passes(rehearse: Rehearse, tmp_path: Path) -> None:
    """In AWM's dialect the oracle follows AWM's rules; an agent without an answer breaks them."""
    awm = ("shop_support", "--dialect", "awm", "--format-rules", "awm")
    oracle = json_of(rehearse, "run", *awm, "-o", tmp_path / "oracle")
    noop = json_of(rehearse, "run", *awm, "-p", "noop", "-o", tmp_path / "noop")

    assert oracle["labels"] == {"completed": 45}
    assert noop["endings"] == {"format_error": 45}
    assert noop["mean_reward"] <= 0.0


def test_a_script_is_played(rehearse: Rehearse, world: Path, tmp_path: Path) -> None:
    """`-p scripted` plays the file's calls and answer."""
    script = tmp_path / "script.jsonl"
    call = {"name": "open_account", "arguments": {"name": "petty"}}
    line = {"scenario": "ledger", "task": "open", "calls": [call], "answer": "Opened."}
    script.write_text(json.dumps(line))
    run = tmp_path / "run"
    report = json_of(rehearse, "run", world, "-p", "scripted", "--script", script, "-o", run)
    status, _, err = rehearse("export", run, "-o", tmp_path / "out.jsonl", "--dumps")
    episode = json.loads((tmp_path / "out.jsonl").read_text())

    assert report["pass_rate"] == 1.0
    assert (status, err) == (0, "")
    assert episode["steps"][0]["calls"] == [call]
    assert episode["answer"] == "Opened."
    assert [change["table"] for change in episode["state_diff"]] == ["accounts", "tags"]
    assert {"name": "petty"}.items() <= episode["final"]["accounts"][-1].items()
    assert episode["start_digest"] != episode["end_digest"]


@pytest.mark.slow
def test_judging_again_gives_the_same(rehearse: Rehearse, tmp_path: Path) -> None:
    """`judge` over the log agrees with the live verdicts, and its verdicts are appended."""
    run = tmp_path / "run"
    report = json_of(rehearse, "run", "shop_support", "-p", "mutant", "-g", 2, "-o", run)
    summary = json_of(rehearse, "judge", run)

    counts = {label: count for label, count in summary["labels"].items() if count}
    assert counts == report["labels"]
    assert summary["episodes"] == 90
    assert summary["disagreements"] == 0
    assert summary["mean_reward"] == pytest.approx(report["mean_reward"])


def test_a_changed_verifier_is_compared(rehearse: Rehearse, world: Path, tmp_path: Path) -> None:
    """`replay` refuses a package that has changed; `--world` shows which rewards would change."""
    run = tmp_path / "run"
    json_of(rehearse, "run", world, "-o", run)
    stricter = VERIFY.replace("balance=0", "balance=5")
    write_package(world, verify_py=stricter)

    status, _, err = rehearse("replay", run)
    changes = json_of(rehearse, "replay", run, "--world", world)

    assert status == 2
    assert "has changed since the run" in err
    [change] = changes["changes"]
    assert (change["label_before"], change["reward_before"]) == ("completed", 1.0)
    assert change["label_after"] != "completed"


def test_a_world_that_is_not_deterministic_diverges(
    rehearse: Rehearse, world: Path, tmp_path: Path
) -> None:
    """`replay` names the first divergence and ends with 1."""
    clock = TOOLS.replace(
        'account = db.insert("accounts", name=name)',
        "account = db.insert('accounts', name=name, rate=time.time())",
    )
    write_package(world, tools_py=clock.replace("import msgspec", "import time, msgspec"))
    run = tmp_path / "run"
    json_of(rehearse, "run", world, "-n", 3, "-o", run, "--judge", "none")
    status, out, _ = rehearse("replay", run, "--json", "-")

    [first, *_] = json.loads(out)["divergences"]
    assert status == 1
    assert first["step"] == 0
    assert first["call"]["name"] == "open_account"


def test_a_finished_run_is_resumed(rehearse: Rehearse, tmp_path: Path) -> None:
    """`--resume` on a finished run runs nothing, and refuses other settings."""
    run = tmp_path / "run"
    report = json_of(rehearse, "run", "claims_desk", "-o", run)
    again = json_of(rehearse, "run", "-o", run, "--resume")
    status, _, err = rehearse("run", "claims_desk", "-o", run, "--resume", "--seed", 9)

    assert again == report
    assert status == 2
    assert "seed" in err


def test_a_resumed_run_may_have_more_episodes(rehearse: Rehearse, tmp_path: Path) -> None:
    """A larger plan that begins with the run's is played on, and is the run's from then on; one
    that would change or drop episodes is refused, with what to pass."""
    run, task = tmp_path / "run", "claims_desk:settle-collision"
    rehearse("run", task, "-o", run, "-n", 4, "-g", 2)
    for flags, sentence in (
        (("-n", 2, "-g", 2), "may have more, not 2"),
        (("-n", 6, "-g", 3), "keep -g 2, and choose a larger multiple of it for -n"),
    ):
        status, _, err = rehearse("run", "-o", run, "--resume", *flags)
        assert status == 2 and sentence in err
    assert json_of(rehearse, "run", "-o", run, "--resume", "-n", 8)["labels"] == {"completed": 8}
    assert json_of(rehearse, "run", "-o", run, "--resume")["labels"] == {"completed": 8}
    fresh = json_of(rehearse, "run", task, "-o", tmp_path / "new", "-n", 8, "-g", 2)
    assert json.loads((run / "report.json").read_text()) == without_times(fresh)
    one = tmp_path / "one"  # one group of one task may grow, too
    rehearse("run", task, "-o", one, "-n", 4, "-g", 4)
    more = ("-n", 8, "-g", 8, "--processes", 2)
    assert json_of(rehearse, "run", "-o", one, "--resume", *more)["labels"] == {"completed": 8}


def test_a_flag_wins_over_the_settings_file(rehearse: Rehearse, tmp_path: Path) -> None:
    """Every flag has a TOML key, and run.toml holds what was resolved."""
    config = tmp_path / "settings.toml"
    config.write_text('scenarios = ["claims_desk"]\npolicy = "noop"\nhistory = "last:3"\nseed = 3')
    run = tmp_path / "run"
    json_of(rehearse, "run", "--config", config, "-p", "oracle", "-n", 4, "-o", run)
    resolved = tomllib.loads((run / "run.toml").read_text())

    assert resolved["policy"] == {
        "name": "oracle",
        "script": "",
        "replay": "",
        "tokens": "",
        "think": "",
    }
    assert [resolved[key] for key in ("history", "seed", "episodes")] == ["last:3", 3, 4]


def test_a_dry_run_runs_nothing(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--dry-run` prints the resolved settings and leaves no folder."""
    monkeypatch.chdir(tmp_path)
    status, out, _ = rehearse("run", "shop_support", "-g", 2, "--dry-run")

    assert status == 0
    assert tomllib.loads(out)["group_size"] == 2
    assert "90 episodes" in out
    assert list(tmp_path.iterdir()) == []


def test_show_renders_a_run_and_an_episode(rehearse: Rehearse, tmp_path: Path) -> None:
    """`show` renders a run, and an episode turn by turn."""
    run = tmp_path / "run"
    json_of(rehearse, "run", "shop_support:cancel-duplicate", "-o", run)
    _, whole, _ = rehearse("show", run)
    _, episode, _ = rehearse("show", run, "e000000")

    assert "1 episode" in " ".join(whole.split())  # wherever the line breaks
    assert "turn 1" in episode
    assert "completed" in episode


def test_the_catalogue_is_listed_and_shown(rehearse: Rehearse) -> None:
    """`scenarios list` and `show` show the bundled worlds."""
    listed = json_of(rehearse, "worlds", "list")
    shown = json_of(rehearse, "worlds", "show", "flight_desk")

    assert [row["name"] for row in listed] == ["claims_desk", "flight_desk", "shop_support"]
    assert len(shown["tools"]) >= 28
    assert len(shown["tables"]) >= 15
    assert sum(shown["tables"].values()) >= 120


def test_the_rules_of_a_world_are_shown(rehearse: Rehearse) -> None:
    """`worlds show` prints them whole, between tools and tasks."""
    rules = json_of(rehearse, "worlds", "show", "flight_desk")["rules"]
    printed = " ".join(rehearse("worlds", "show", "flight_desk")[1].split())
    _, _, after_tools = printed.partition(" tools ")
    _, _, from_rules = after_tools.partition(f" rules {' '.join(rules.split())} ")
    assert rules and from_rules.split()[1] == "tasks"


@pytest.mark.slow
@pytest.mark.usefixtures("quick_gate")
def test_the_gate_names_a_defect(rehearse: Rehearse, tmp_path: Path) -> None:
    """`scenarios check` ends with 1 and names the check that failed."""
    world = variant(tmp_path, verify=("fine_cents=0", "fine_cents=1"))
    status, out, _ = rehearse("worlds", "check", world, "--json", "-")
    report = json.loads(out)

    assert status == 1
    fields = {"worlds", "tasks", "tools", "failures", "mutants", "mutants_caught"}
    assert fields <= set(report)
    assert ("oracle", "pay-fine") in {(f["check"], f["task"]) for f in report["failures"]}
    assert all(set(f) == {"world", "task", "check", "why"} for f in report["failures"])


BAD_INPUT = [
    (("run", "shop_support", "--mcp-env", "HOME"), "command of --mcp"),
    (("run", "nope"), "scenario 'nope' not found"),
    (("run", "shop_support:nope"), "no task 'nope'"),
    (("run",), "scenarios"),
    (("run", "shop_support", "-n", "3", "-g", "2"), "not a multiple of the group size 2"),
    (("run", "shop_support", "-n", "0"), "episodes"),
    (("run", "shop_support", "-c", "0"), "concurrency"),
    (
        ("run", "shop_support", "--workers", "257"),
        "workers: must be at least 1 and at most 256, found 257",
    ),
    (("run", "shop_support", "-p", "sage"), "oracle"),
    (("run", "shop_support", "--history", "last:x"), "last:W"),
    (("run", "shop_support", "--think", "5:1"), "think"),
    (("run", "shop_support", "-p", "openai"), "model"),
    (("run", "shop_support", "-p", "scripted"), "script"),
    (("run", "shop_support", "-p", "scripted", "--script", "missing.jsonl"), "missing.jsonl"),
    (("run", "shop_support", "--config", "missing.toml"), "missing.toml"),
    (("run", "shop_support", "--bus", "http://localhost"), "mqtt://"),
    (("run", "shop_support", "--bus", "mqtt://127.0.0.1:9"), "cannot be reached"),
    (("run", "shop_support", "--dry-run", "--history", "last"), "history: 'last'"),
    (("run", "shop_support", "--dry-run", "--bus", "foo"), "bus: the broker's URL"),
    (("bench", "shop_support", "--sweep", "colour=1"), "colour"),
    (("bench", "shop_support", "--resume"), "in one go"),
    (("bench", "shop_support", "--json", "missing/out.json"), "missing/out.json"),
    (("show", "missing"), "missing"),
    (("replay", "missing"), "missing"),
    (("judge", "missing"), "missing"),
    (("export", "missing"), "missing"),
    (("worlds", "show", "nope"), "nope"),
    (("show", "watch", "--bus", "mqtt://127.0.0.1:9", "x"), "cannot be reached"),
]


@pytest.mark.parametrize(("arguments", "words"), BAD_INPUT, ids=lambda value: str(value)[:60])
def test_bad_input_gets_one_sentence(
    rehearse: Rehearse,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    words: str,
) -> None:
    """Exit status 2, a sentence that names the field or file, and nothing half-written."""
    monkeypatch.chdir(tmp_path)
    status, out, err = rehearse(*arguments)

    assert status == 2
    assert words in err
    assert "Traceback" not in err
    assert out == ""
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_bad_settings_file_is_named_with_its_field(rehearse: Rehearse, tmp_path: Path) -> None:
    """An unknown key or a wrong type in TOML is an error that names file and field."""
    config = tmp_path / "settings.toml"
    config.write_text("group_size = 'two'")
    wrong_type = rehearse("run", "shop_support", "--config", config)
    config.write_text("colour = 'red'")
    unknown = rehearse("run", "shop_support", "--config", config)

    assert (wrong_type[0], unknown[0]) == (2, 2)
    assert "settings.toml: group_size" in wrong_type[2]
    assert "settings.toml" in unknown[2] and "colour" in unknown[2]


def test_a_broken_package_is_named_with_its_field(rehearse: Rehearse, world: Path) -> None:
    """The error about a package's file names the file and the field."""
    write_package(world, tasks_toml=TASKS.replace('"simple"', '"easy"'))
    status, _, err = rehearse("run", world)

    assert status == 2
    assert "tasks.toml" in err
    assert "difficulty" in err


def test_a_broken_verifier_stops_a_run_before_it_begins(
    rehearse: Rehearse, world: Path, tmp_path: Path
) -> None:
    """The error about a task without a verifier names file and task, and there is no run folder."""
    write_package(world, verify_py=VERIFY.replace("def open(", "def shut("))
    run = tmp_path / "run"
    status, _, err = rehearse("run", world, "-o", run)

    assert status == 2
    assert "verify.py" in err and "'open'" in err
    assert not run.exists()


def test_a_run_is_not_written_over(rehearse: Rehearse, world: Path, tmp_path: Path) -> None:
    """A folder that holds a run is refused without --resume."""
    run = tmp_path / "run"
    json_of(rehearse, "run", world, "-o", run)
    before = (run / "episodes.sqlite").read_bytes()
    status, _, err = rehearse("run", world, "-o", run)

    assert status == 2
    assert "--resume" in err
    assert (run / "episodes.sqlite").read_bytes() == before


@pytest.mark.slow
def test_a_run_is_followed_from_another_process(rehearse: Rehearse, tmp_path: Path) -> None:
    """`watch` sees a run that `run --bus` publishes from its first to its last episode."""
    run = tmp_path / "followed"
    with running_broker(tmp_path) as broker:
        url = broker.url
        command = [
            sys.executable,
            "-m",
            "rehearsal_room",
            "show",
            "watch",
            "--bus",
            url,
            "--events",
            run.name,
        ]
        watcher = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        broker.wait_for_client(watcher)
        slow = ("--think", "0.1:0.2")  # so that it follows a live run
        report = json_of(rehearse, "run", "claims_desk", *slow, "--bus", url, "-o", run)
        seen, _ = watcher.communicate(timeout=50)

    assert watcher.returncode == 0
    assert report["pass_rate"] == 1.0
    assert {f"e{index:06d}" for index in range(39)} <= set(re.findall(r"e\d{6}", seen))
    assert "39 of 39 started, 39 ended, 39 judged" in seen.splitlines()[-1]


def test_an_error_cannot_control_the_terminal(rehearse: Rehearse, tmp_path: Path) -> None:
    """Control characters in names, or in errors of a package's code, are escaped."""
    status, _, err = rehearse("judge", tmp_path / "a\x1b[31mb")
    sentence = rf"error: {tmp_path}/a\x1b[31mb: there is no log (episodes.sqlite) in this folder"
    assert (status, err) == (2, f"{sentence}\n")


def test_failures_at_the_same_time_are_each_reported(
    rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk stops the log and a checkpoint: each has one sentence, and the status is 2; a bug
    among them keeps its traceback."""
    log = LogError("the log cannot be written: the disk is full")
    checkpoint = CheckpointError("v1: it cannot be written: No space left on device")
    both = ExceptionGroup("", [ExceptionGroup("", [log, log]), checkpoint])

    def fails(failure: Exception) -> None:
        def cli(**_: object) -> None:
            raise failure

        monkeypatch.setattr("rehearsal_room.cli.main.cli", cli)

    fails(both)
    assert rehearse("train") == (2, "", f"error: {log}\nerror: {checkpoint}\n")
    fails(ExceptionGroup("", [log, KeyError("a bug")]))
    with pytest.raises(ExceptionGroup):
        rehearse("train")


def test_a_run_that_fails_at_its_start_leaves_no_folder(
    rehearse: Rehearse, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has the reason. A log that cannot be read may have episodes, and is not removed."""

    async def full(folder: Path, *_: object, **__: object) -> None:
        (folder / LOG_NAME).touch()
        raise LogError("the disk is full")

    monkeypatch.setattr("rehearsal_room.harness.setup.launching.play_left", full)
    out = tmp_path / "run"
    status, _, err = rehearse("run", world, "-o", out)
    assert (status, without_trust_line(err)) == (2, "error: the disk is full\n")
    assert not out.exists()
    out.mkdir()
    (out / LOG_NAME).write_bytes(b"not a database")
    assert has_episodes(out)
