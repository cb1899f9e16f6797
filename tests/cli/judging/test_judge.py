"""Judging by models from the command line, over real HTTP: every way in which a judge can fail,
what code proved, several judges, rewards, and what is judged again."""

import io
import json
import re
import socket
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from rich.console import Console
from rich.pager import SystemPager

from rehearsal_room.cli.trust.judge import print_paged
from rehearsal_room.envpool.inprocess.fault_injection import FAULTS, ToolFault, copy_with_fault
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.scenarios.catalogue import find
from tests.support.budgets import repeats
from tests.support.cli import Rehearse, json_of
from tests.support.judge_server import (
    Flaky,
    Picky,
    Slow,
    Speaker,
    Speaks,
    biased,
    billed,
    chatty,
    expensive,
    good,
    injected,
    lying,
    malformed,
    text_of,
    truncating,
)
from tests.support.judged_runs import (
    AGENT,
    COMPLETED,
    WORLD,
    Chosen,
    Noting,
    judge,
    labels_of,
    no_environment,
    prices_of,
    questions_of,
    records_of,
    rewards_of,
    run_of_both,
    run_of_oracles,
    served,
    truth_about,
    verdicts_of,
)
from tests.support.mini_world import variant
from tests.support.model_server import Behaviour, ReceivedRequest, Stall, Status
from tests.support.paths import LIBRARY

_BUNDLED = ("shop_support", "flight_desk", "claims_desk")
WORLDS = _BUNDLED[: repeats(short=1, long=3)]
NUM_TASKS = sum(len(find(name).default_tasks) for name in WORLDS)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests go to the server of the test, whatever the environment names."""
    no_environment(monkeypatch)


@pytest.fixture
def run(rehearse: Rehearse, tmp_path: Path) -> Path:
    """A run of 6 episodes that completed their task, unjudged."""
    return run_of_oracles(rehearse, tmp_path / "run")


@pytest.fixture
def mixed(rehearse: Rehearse, tmp_path: Path) -> Path:
    """A run of 6 completed episodes, 1 partial, 5 agent errors; judged by code."""
    return run_of_both(rehearse, tmp_path / "mixed")


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    """A million tokens of `m` cost 1 USD in and 10 USD out."""
    return prices_of(tmp_path / "prices.toml", "m")


def outcome(summary: Any) -> dict[str, Any]:
    """The labels, the costs and the failures of a summary."""
    return {
        "labels": {label: count for label, count in summary["labels"].items() if count},
        "whys": sorted({re.sub(r"http://[\d.:]+/v1", "URL", w) for w in whys(summary)}),
        "disagreements": summary["disagreements"],
        "model_calls": summary["model_calls"],
        "cost_usd": pytest.approx(summary["cost_usd"]),
    }


def whys(summary: Any) -> list[str]:
    assert len(summary["unjudged_episodes"]) == summary["unjudged"]
    return [one["why"] for one in summary["unjudged_episodes"]]


RIGHT: Speaker = billed(good(lambda _: COMPLETED), 1_000, 100)  # 0.002 USD
WRONG: Speaker = billed(biased("agent_error"), 1_000, 100)
NO_SCHEMA = ("json_schema", "json_object")
DEAD = Status(503, "overloaded", headers={"retry-after-ms": "1"})
_NO = "no judgement of model 'm' at URL: "

# How a judge behaves, the flags with which it is asked about 6 completed episodes, and what comes
# of it: labels, why there is none, disagreements, requests, answers that were paid.
PLAYS: dict[str, tuple[Callable[[], Behaviour], tuple[Any, ...], dict[str, Any]]] = {
    "good": (lambda: Speaks(RIGHT), (), {"calls": 6}),
    "slow": (lambda: Slow(Speaks(RIGHT), 0.02), (), {"calls": 6}),
    "biased": (lambda: Speaks(WRONG), (), {"calls": 6, "disagreements": 6}),
    "flaky": (lambda: Flaky(Speaks(RIGHT)), ("-c", 1), {"calls": 8, "paid": 6}),
    "chatty": (
        lambda: Picky(Speaks(chatty(RIGHT)), NO_SCHEMA),
        ("-c", 1),
        {"calls": 8, "paid": 6},
    ),
    "truncating": (
        lambda: Speaks(truncating(RIGHT, 4096)),
        ("--max-tokens", 1024),
        {"calls": 18},
    ),
    "truncating too often": (
        lambda: Speaks(truncating(RIGHT, 4096)),
        ("--max-tokens", 1024, "--attempts", 2),
        {"calls": 12, "why": f"{_NO}the answer was cut off after 2,048 tokens (after 2 attempts)"},
    ),
    "malformed once": (lambda: Speaks(malformed(RIGHT)), (), {"calls": 12}),
    "malformed": (
        lambda: Speaks(malformed(RIGHT, 99)),
        ("--attempts", 3),
        {
            "calls": 18,
            "why": f"{_NO}the answer contains no JSON object with a label (after 3 attempts)",
        },
    ),
    "silent": (
        Stall,
        ("--timeout", 0.05, "--attempts", 1),
        {"calls": 6, "paid": 0, "why": f"{_NO}no answer within 0.05 s (after 1 attempt)"},
    ),
    "dead": (
        lambda: DEAD,
        ("--attempts", 2),
        {"calls": 12, "paid": 0, "why": f"{_NO}status 503: overloaded (after 2 attempts)"},
    ),
    "refusing": (
        lambda: Status(401, "no such key"),
        (),
        {"calls": 6, "paid": 0, "why": f"{_NO}status 401: no such key (after 1 attempt)"},
    ),
}


@pytest.mark.parametrize("play", PLAYS)
def test_every_failure_of_a_judge_gives_a_verdict_or_a_sentence(
    rehearse: Rehearse, run: Path, prices: Path, play: str
) -> None:
    """Each way of failing gives the labels that are possible, else a sentence and no reward; every
    request is counted, every answer is paid, and the exit status is 0."""
    behaviour, flags, expected = PLAYS[play]
    with served(behaviour()) as server:
        summary = judge(rehearse, run, server.url, "--prices", prices, *flags)

    why, calls = expected.get("why"), expected["calls"]
    assert outcome(summary) == {
        "labels": {} if why else {"completed": 6},
        "whys": [why] if why else [],
        "disagreements": expected.get("disagreements", 0),
        "model_calls": calls,
        "cost_usd": 0.002 * expected.get("paid", calls),
    }
    assert len(server.requests) == calls
    assert summary["mean_reward"] == (None if why else 1.0)
    reward = (None, ()) if why else None
    rewards = rewards_of(run, "hybrid:m")
    assert all(given == reward if why else given[0] == 1.0 for given in rewards.values())
    assert len(rewards) == 6


def test_an_endpoint_that_is_down_is_named(rehearse: Rehearse, run: Path) -> None:
    """The episodes stay unjudged, and the reason names the endpoint."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        url = f"http://127.0.0.1:{port}/v1"
        summary = judge(rehearse, run, url, "--attempts", 1)

    assert summary["unjudged"] == 6
    assert all(why.startswith(f"no judgement of model 'm' at {url}: ") for why in whys(summary))


def test_another_judge_finishes_what_a_dead_judge_left(rehearse: Rehearse, mixed: Path) -> None:
    """With an endpoint that is down all episodes are unjudged, and the report counts them
    separately; `--only unjudged` asks about exactly those, and then about none."""
    truth = truth_about(questions_of(mixed, "hybrid"))
    with served(DEAD) as server:
        before = judge(rehearse, mixed, server.url, "--attempts", 1)
        report = json.loads((mixed / "report.json").read_bytes())
        server.requests.clear()
        server.default = Speaks(good(truth))
        after = judge(rehearse, mixed, server.url, "--only", "unjudged")
        asked = len(server.requests)
        again = judge(rehearse, mixed, server.url, "--only", "unjudged")
    finished = json.loads((mixed / "report.json").read_bytes())

    assert (before["unjudged"], before["mean_reward"]) == (12, None)
    assert (report["unjudged"], report["labels"], report["mean_reward"]) == (12, {}, None)
    assert (report["pass_rate"], report["judging"]["requests"]) == (0.0, 12)
    assert (after["unjudged"], after["judged_now"], after["model_calls"]) == (0, 12, 12)
    assert (again["judged_now"], again["model_calls"], again["labels"]) == (0, 0, after["labels"])
    assert asked == len(server.requests) == 12
    assert finished["labels"] == {"agent_error": 5, "completed": 6, "partially_completed": 1}
    assert (finished["unjudged"], finished["judging"]["requests"]) == (0, 24)


def test_only_what_is_unjudged_is_judged(rehearse: Rehearse, run: Path) -> None:
    """After a judge failed on some episodes, `--only unjudged` asks about those and no others."""
    asked = questions_of(run, "hybrid")
    lost = list(asked)[2:4]

    def ill(question: ReceivedRequest) -> Behaviour:
        return DEAD if text_of(question) in lost else Speaks(RIGHT)

    with served(Chosen(ill)) as server:
        judge(rehearse, run, server.url, "--attempts", 1)
        server.requests.clear()
        server.default = Speaks(RIGHT)
        summary = judge(rehearse, run, server.url, "--only", "unjudged")
        shown = [text_of(question) for question in server.requests]

    assert sorted(shown) == sorted(lost)
    assert (summary["judged_now"], summary["labels"]["completed"]) == (2, 6)
    given = {name: len(verdicts) for name, verdicts in verdicts_of(run, "hybrid:m").items()}
    names = {episode for text in lost for episode in asked[text].episodes}
    assert given == {name: 1 + (name in names) for name in given}


def test_an_exhausted_budget_leaves_episodes_unjudged(
    rehearse: Rehearse, run: Path, prices: Path
) -> None:
    """Episodes beyond the budget are unjudged for that reason; no more than the budget is spent;
    another budget asks only about the remaining ones."""
    budget = 0.034  # a question may cost 0.03 USD at worst, and costs 0.002 USD
    paid = ("--prices", prices)
    with served(Speaks(RIGHT)) as server:
        first = judge(rehearse, run, server.url, *paid, "--budget", budget, "-c", 1)
        num_first, reported = len(server.requests), (run / "report.json").read_bytes()
        more = judge(rehearse, run, server.url, *paid, "--budget", 1, "--only", "unjudged")

    assert 0 < first["unjudged"] < 6
    assert first["unjudged"] + first["labels"]["completed"] == 6
    assert all(" of 0.0340 USD spent or reserved" in why for why in whys(first))
    assert first["cost_usd"] == pytest.approx(0.002 * num_first)
    assert first["cost_usd"] <= budget
    assert first["usd_per_1024_episodes"] == pytest.approx(0.002 * 1024)
    assert json.loads(reported)["usd_per_1024_episodes"] == pytest.approx(0.002 * 1024)
    assert (more["unjudged"], more["model_calls"]) == (0, first["unjudged"])


def test_a_judge_that_charges_too_much_is_not_asked_again(
    rehearse: Rehearse, run: Path, prices: Path
) -> None:
    """An answer that costs more than was reserved for it is paid once, and ends the budget."""
    flags = ("--prices", prices, "--budget", 5, "-c", 1)
    with served(Speaks(expensive(RIGHT))) as server:
        summary = judge(rehearse, run, server.url, *flags)

    assert len(server.requests) == 1
    assert (summary["cost_usd"], summary["labels"]["completed"]) == (11.0, 1)
    spent = "budget exhausted: 11.00 of 5.00 USD spent or reserved"
    assert [why.startswith(spent) for why in whys(summary)] == [True] * 5


def test_a_persuaded_judge_changes_no_reward_in_hybrid_mode(
    rehearse: Rehearse, mixed: Path
) -> None:
    """A judge that obeys "say completed" rewards agents that ask for it in mode llm; in mode hybrid
    the proof of the code counts, and each case is in the queue."""
    truth = truth_about(questions_of(mixed, "llm"), questions_of(mixed, "hybrid"))
    with served(Speaks(injected(truth))) as server:
        alone = judge(rehearse, mixed, server.url, "--mode", "llm")
        beside = judge(rehearse, mixed, server.url, "--mode", "hybrid")
    queue = json_of(rehearse, "judge", mixed, "--disagreements")["queue"]

    assert (alone["labels"]["completed"], alone["mean_reward"]) == (12, 1.0)
    assert labels_of(mixed, "hybrid:m") == labels_of(mixed, "code")
    assert rewards_of(mixed, "hybrid:m") == rewards_of(mixed, "code")
    pleading = {name for name, label in labels_of(mixed, "code").items() if label != COMPLETED}
    assert {entry["episode"] for entry in queue} == pleading
    assert beside["disagreements"] == len(pleading) == 6


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_lies_change_rewards_in_llm_mode_and_none_that_code_proved_in_hybrid(
    rehearse: Rehearse, tmp_path: Path
) -> None:
    """A judge that lies about 30 % of the episodes of bundled worlds changes rewards in mode llm;
    in mode hybrid it changes none that code proved, and the queue has the lies."""
    oracles, mutants = tmp_path / "oracles", tmp_path / "mutants"
    json_of(rehearse, "run", *WORLDS, "-o", oracles)
    json_of(rehearse, "run", *WORLDS, "-p", "mutant", "-g", 2, "-o", mutants)
    changed: dict[str, list[tuple[str, str]]] = {"llm": [], "hybrid": []}
    lies: dict[str, list[tuple[str, str]]] = {"llm": [], "hybrid": []}
    queued: list[tuple[str, str]] = []
    opened: list[tuple[str, str]] = []  # code leaves a statement in words to the model
    num_episodes = 0
    for folder in (oracles, mutants):
        for mode in ("llm", "hybrid"):
            asked = questions_of(folder, mode)
            truth = truth_about(asked)
            liar = Noting(lying(truth, 0.3), truth)
            with served(Speaks(liar)) as server:
                judge(rehearse, folder, server.url, "--mode", mode, "-c", 8)
            code, model = rewards_of(folder, "code"), rewards_of(folder, f"{mode}:m")
            assert set(model) == set(code) == {e for one in asked.values() for e in one.episodes}
            changed[mode] += [(folder.name, name) for name in code if model[name] != code[name]]
            lies[mode] += [
                (folder.name, name) for text in liar.lies for name in asked[text].episodes
            ]
        num_episodes += len(code)
        queue = json_of(rehearse, "judge", folder, "--disagreements")["queue"]
        for entry in [one for one in queue if one["judge"].startswith("hybrid")]:
            is_proved = entry["decided_by"] == "code"
            assert bool(entry["proof"]) or not is_proved
            (queued if is_proved else opened).append((folder.name, entry["episode"]))

    assert num_episodes == 3 * NUM_TASKS
    assert 0.2 * num_episodes < len(lies["llm"]) < 0.4 * num_episodes
    assert sorted(changed["llm"]) == sorted(lies["llm"])
    assert 0.2 * num_episodes < len(lies["hybrid"]) < 0.4 * num_episodes
    assert set(changed["hybrid"]) <= set(opened)
    assert len(opened) < 0.05 * num_episodes
    assert set(queued) <= set(lies["hybrid"]) <= {*queued, *opened}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_world_is_not_blamed_on_the_agent(
    rehearse: Rehearse, tmp_path: Path, fault: ToolFault
) -> None:
    """Episodes in which a tool broke are environment errors in mode hybrid, even if the model that
    judges them live blames the agent; in mode llm the model decides."""
    world = copy_with_fault(LIBRARY, tmp_path / "broken", fault, "find_member")
    run = tmp_path / "run"
    with served(Speaks(WRONG)) as server:
        flags = ("--judge", "hybrid", "--judge-model", "m", "--judge-base-url", server.url)
        json_of(rehearse, "run", world, "-o", run, *flags)
        judge(rehearse, run, server.url, "--mode", "llm")
    met = {"pay-fine", "lend-two", "renew-emma", "blocked"}  # whose oracles call that tool
    with open_reader(run) as reader:
        labels = {
            one.started.task: [judged.label for judged in one.judged]
            for one in reader.trajectories()
        }

    assert labels == {
        task: [WORLD if task in met else COMPLETED, AGENT]
        for task in (*met, "return-dune", "overdue")
    }


def test_a_verifier_that_crashed_leaves_its_episodes_unjudged(
    rehearse: Rehearse, tmp_path: Path
) -> None:
    """In mode hybrid no model is asked about an episode whose verifier crashed: it is unjudged, and
    the reason names the place where the verifier crashed. The others are judged."""
    world = variant(tmp_path, verify=('check.untouched("members", 1)', "[][1]"))
    run = run_of_oracles(rehearse, tmp_path / "run", world)
    with served(Speaks(RIGHT)) as server:
        summary = judge(rehearse, run, server.url)

    [one] = summary["unjudged_episodes"]
    why = "verifier 'pay_fine' of scenario 'library' raised IndexError: list index out of range"
    assert one == {"episode": "e000000", "why": why}
    assert (summary["labels"]["completed"], len(server.requests)) == (5, 5)
    assert rewards_of(run, "hybrid:m")["e000000"] == (None, ())


def test_mode_llm_needs_no_package(rehearse: Rehearse, tmp_path: Path) -> None:
    """In mode llm a run can be judged on a machine without its packages; in mode hybrid that is
    refused with a sentence."""
    world = variant(tmp_path)
    run = run_of_oracles(rehearse, tmp_path / "run", world)
    rmtree(world)
    with served(Speaks(RIGHT)) as server:
        summary = judge(rehearse, run, server.url, "--mode", "llm")
        shown = server.requests[0].body["messages"][1]["content"]
        status, _, err = rehearse("judge", run, "--mode", "hybrid")

    assert summary["labels"]["completed"] == 6
    assert "A loan runs 21 days." in shown  # of the policy, which the log has
    assert (status, len(server.requests)) == (2, 6)
    assert "is no longer at" in err


def test_the_queue_is_rendered(rehearse: Rehearse, run: Path) -> None:
    """`--disagreements` shows both sides of each case, up to --limit, and judges nothing."""
    with served(Speaks(WRONG)) as server:
        judge(rehearse, run, server.url)
    before = records_of(run)
    status, out, _ = rehearse("judge", run, "--disagreements")

    assert status == 0
    assert out.count("m: agent_error, confidence 0.90") == 6
    assert out.count("the verifier's findings all passed") == 6
    assert out.splitlines()[-1] == "6 disagreements"
    status, out, _ = rehearse("judge", run, "--disagreements", "--limit", 2)
    assert out.count("m: agent_error, confidence 0.90") == 2
    assert out.splitlines()[-1] == "4 more are not shown; --limit 0 shows all"
    assert records_of(run) == before


def test_a_pager_is_for_long_texts_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fits on the terminal, or goes to a file, is printed at once; other texts are paged."""
    paged: list[str] = []
    monkeypatch.setattr(SystemPager, "show", lambda _, content: paged.append(content))
    terminal = Console(file=io.StringIO(), force_terminal=True, width=80, height=10)
    long = "".join(f"line {number}\n" for number in range(20))
    print_paged("no disagreements\n", terminal)
    print_paged(long, Console(file=io.StringIO(), width=80, height=10))
    assert paged == []
    print_paged(long, terminal)
    assert paged == [long]
