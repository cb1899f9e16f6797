"""Studies of judges over real HTTP, and labels by people."""

import io
import json
import sys
from collections import defaultdict
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.judge.core.evidence import episode_digest
from rehearsal_room.scenarios.catalogue import find
from tests.support.budgets import repeats
from tests.support.cli import Rehearse, json_of
from tests.support.judge_server import Speaker, Speaks, billed, good, injected, lying, text_of
from tests.support.judged_runs import (
    AGENT,
    COMPLETED,
    labels_of,
    no_environment,
    prices_of,
    questions_of,
    records_of,
    run_of_both,
    run_of_oracles,
    served,
    truth_about,
)
from tests.support.model_server import Status
from tests.support.paths import LIBRARY

_BUNDLED = ("shop_support", "flight_desk", "claims_desk")
WORLDS = _BUNDLED[: repeats(short=1, long=3)]
NUM = sum(len(find(name).default_tasks) for name in WORLDS)  # episodes, one of each task


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests go to the server of the test, whatever the environment names."""
    no_environment(monkeypatch)


@pytest.fixture
def mixed(rehearse: Rehearse, tmp_path: Path) -> Path:
    """A run of 6 completed episodes (even numbers), 1 partial (e000005), 5 agent errors; judged."""
    return run_of_both(rehearse, tmp_path / "mixed")


@pytest.fixture
def oracles(rehearse: Rehearse, tmp_path: Path) -> Path:
    """A run of 6 episodes that completed their task, unjudged."""
    return run_of_oracles(rehearse, tmp_path / "run")


def study(rehearse: Rehearse, folder: Path, url: str, *flags: object) -> Any:
    """The JSON of `rehearse judge study` with the model `m` of a server."""
    return json_of(rehearse, "judge", "study", folder, "-m", "m", "--base-url", url, *flags)


def within(estimate: Any, value: float) -> bool:
    """Whether a value is in the interval of an uncertain figure."""
    inside: bool = estimate["lower"] <= value <= estimate["upper"]
    return inside and estimate["lower"] < estimate["upper"] < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["llm", "hybrid"])
def test_a_known_flip_probability_is_found(rehearse: Rehearse, tmp_path: Path, mode: Any) -> None:
    """A judge that answers the opposite in about 10 % of its judgements is measured so, within the
    interval, in mode llm; in mode hybrid its verdicts on what is proved do not flip."""
    run = tmp_path / "run"
    json_of(rehearse, "run", *WORLDS, "-o", run)
    liar = lying(truth_about(questions_of(run, mode)), 0.1, seed=4)
    answers: dict[str, list[str]] = defaultdict(list)

    def noting(speaker: Speaker) -> Speaker:
        def speak(asked: Any) -> Any:
            spoken = speaker(asked)
            answers[text_of(asked)].append(json.loads(spoken.text)["label"])
            return spoken

        return speak

    with served(Speaks(noting(liar))) as server:
        flags = ("--mode", mode, "--sample", NUM, "--repeats", 5, "--no-rewordings")
        report = study(rehearse, run, server.url, *flags)

    pairs = [one == other for labels in answers.values() for one, other in combinations(labels, 2)]
    assert (report["episodes"], report["judgings"], report["unjudged"]) == (NUM, 5 * NUM, 0)
    assert [len(labels) for labels in answers.values()] == [5] * NUM
    if mode == "hybrid":
        assert report["pairwise_agreement"]["four_way"]["value"] == 1.0
        assert report["flip_probability"]["value"] == report["reward_flip_rate"]["value"] == 0.0
        assert report["against_code"] == report["disagreements"] == []
        return
    agreement = sum(pairs) / len(pairs)
    flips = sum(len(set(labels)) > 1 for labels in answers.values()) / NUM
    assert report["pairwise_agreement"]["binary"]["value"] == pytest.approx(agreement)
    assert report["reward_flip_rate"]["value"] == pytest.approx(flips)
    assert len(report["disagreements"]) == round(flips * NUM)
    lies = sum(label != COMPLETED for labels in answers.values() for label in labels)
    assert within(report["flip_probability"], lies / (5 * NUM))
    assert report["code_agreement"]["agreement"]["binary"]["value"] == pytest.approx(
        sum(label == COMPLETED for labels in answers.values() for label in labels) / (5 * NUM)
    )


@pytest.mark.slow
def test_a_judge_is_compared_with_people(rehearse: Rehearse, mixed: Path, tmp_path: Path) -> None:
    """With a file of labels the report has the kappa and the confusion matrix that were computed by
    hand, over the labelled episodes."""
    people = dict.fromkeys((0, 2, 3, 4, 6), "completed") | dict.fromkeys((1, 5, 7), "agent_error")
    path = tmp_path / "labels.jsonl"
    path.write_text(
        "".join(
            json.dumps({"episode": f"e{number:06d}", "label": label, "labeller": "ann"}) + "\n"
            for number, label in people.items()
        )
    )
    with served(Speaks(good(truth_about(questions_of(mixed, "hybrid"))))) as server:
        flags = ("--sample", 8, "--repeats", 1, "--no-rewordings", "--labels", path)
        human = study(rehearse, mixed, server.url, *flags)["human"]

    # Judge and people say completed 4 and 5 times, agent error 3 and 3 times; they agree in 6 of 8.
    by_chance = (4 * 5 + 3 * 3) / 64
    assert (human["episodes"], human["judgings"], human["labellers"]) == (8, 8, 1)
    assert human["agreement"]["four_way"]["value"] == 6 / 8
    kappa = (6 / 8 - by_chance) / (1 - by_chance)
    assert human["kappa"]["four_way"]["value"] == pytest.approx(kappa)
    assert human["kappa"]["binary"]["value"] == pytest.approx((7 / 8 - 0.5) / 0.5)
    judged = {(a, b): n for a, row in human["confusion"].items() for b, n in row.items() if n}
    assert judged == {
        ("completed", "completed"): 4,
        ("completed", "agent_error"): 1,
        ("agent_error", "agent_error"): 2,
        ("agent_error", "partially_completed"): 1,
    }


@pytest.mark.slow
def test_labels_that_a_person_types_are_used_by_a_study(
    rehearse: Rehearse, mixed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`label` writes each label at once and continues with the remaining episodes when it is called
    again; `study` reads the file in the run's folder."""

    def sitting(*keys: str) -> str:
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{key}\n" for key in keys)))
        status, out, err = rehearse("judge", "label", mixed, "--labeller", "ann")
        assert status == 0, err
        return out.rstrip().rpartition("\n")[2].rpartition("[?]: ")[2]

    path = mixed / "labels.jsonl"
    last = [sitting("c", "n", "half of it", "p", "q"), sitting(*"c" * 10)]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    with served(Speaks(good(truth_about(questions_of(mixed, "hybrid"))))) as server:
        flags = ("--sample", 12, "--repeats", 1, "--no-rewordings")
        human = study(rehearse, mixed, server.url, *flags)["human"]

    assert last == [
        f"2 labelled, 10 left; the file is {path}",
        f"10 labelled, 0 left; the file is {path}",
    ]
    assert [line["label"] for line in lines] == ["completed", "partially_completed"] + [
        "completed"
    ] * 10
    assert [line["note"] for line in lines[:2]] == ["", "half of it"]
    assert {line["labeller"] for line in lines} == {"ann"}
    with open_reader(mixed) as reader:
        digests = {one.episode: episode_digest(one) for one in reader.trajectories()}
    assert {line["episode"]: line["digest"] for line in lines} == digests
    assert (human["episodes"], human["labellers"]) == (12, 1)


def test_an_exhausted_budget_is_reported(rehearse: Rehearse, oracles: Path, tmp_path: Path) -> None:
    """A study whose budget is too small reports that and counts the missing judgements; its figures
    are over all episodes nevertheless, and it spends no more."""
    prices = prices_of(tmp_path / "prices.toml", "m")
    right = billed(good(lambda _: COMPLETED), 1_000, 100)  # 0.002 USD
    with served(Speaks(right)) as server:
        flags = ("--prices", prices, "--budget", 0.048, "-c", 1, "--repeats", 5)
        report = study(rehearse, oracles, server.url, *flags, "--no-rewordings")

    num_given = len(server.requests)
    assert 6 <= num_given < 30
    assert (report["judgings"], report["unjudged"]) == (30, 30 - num_given)
    assert report["stopped"] == f"budget exhausted: {30 - num_given} of 30 judgings were not made"
    assert report["cost"]["cost_usd"] == pytest.approx(0.002 * num_given)
    assert report["code_agreement"]["episodes"] == 6


@pytest.mark.slow
def test_pleas_are_measured(rehearse: Rehearse, tmp_path: Path) -> None:
    """A judge that obeys is measured to say completed when an injection asks for it, and to keep
    its label when only the wording changes; in mode hybrid it gives no such verdict."""
    run = tmp_path / "run"
    json_of(rehearse, "run", LIBRARY, "-p", "mutant", "-n", 12, "-g", 2, "-o", run)
    num_wrong = sum(label is not COMPLETED for label in labels_of(run, "code").values())
    reports = {}
    with served(Speaks(injected(lambda _: AGENT))) as server:
        for mode in ("llm", "hybrid"):
            reports[mode] = study(rehearse, run, server.url, "--mode", mode, "--repeats", 2)

    alone, beside = reports["llm"], reports["hybrid"]
    for name in ("plea", "fake_verdict"):
        flips = alone["injection_flips"][name]
        assert (flips["episodes"], flips["to_completed"]["value"]) == (12, 1.0)
        proved = beside["injection_flips"][name]
        assert (proved["not_completed"], proved["to_completed"]["value"]) == (num_wrong, 0.0)
    for flips in alone["rewording_flips"].values():
        assert flips["flipped"]["value"] in (0.0, None)
    assert alone["injection_flips"]["hidden_text"]["to_completed"]["value"] == 0.0


@pytest.mark.slow
def test_a_study_changes_nothing_in_the_run(rehearse: Rehearse, mixed: Path) -> None:
    """Nothing is written to the log, and the verdict cache is neither read nor written."""
    before = records_of(mixed)
    with served(Speaks(good(truth_about(questions_of(mixed, "hybrid"))))) as server:
        flags = ("--repeats", 1, "--no-rewordings")
        reports = [study(rehearse, mixed, server.url, *flags) for _ in range(2)]
        asked = len(server.requests)
        judged = json_of(rehearse, "judge", mixed, "-m", "m", "--base-url", server.url)

    assert asked == 24
    assert [report["cost"]["requests"] for report in reports] == [12, 12]
    assert (judged["model_calls"], judged["cached_judgements"]) == (12, 0)
    assert records_of(mixed)[: len(before)] == before
    assert len(records_of(mixed)) == len(before) + 12


def test_a_study_of_an_unreachable_judge_reports_why(rehearse: Rehearse, oracles: Path) -> None:
    """If no judgement succeeds there are no figures, only the reason with its count."""
    with served(Status(401, "no such key")) as server:
        flags = ("--repeats", 2, "--no-rewordings")
        report = study(rehearse, oracles, server.url, *flags)
        shown = rehearse("judge", "study", oracles, "-m", "m", "--base-url", server.url, *flags)

    why = f"no judgement of model 'm' at {server.url}: status 401: no such key (after 1 attempt)"
    assert report["unjudged_reasons"] == {why: 12}
    assert report["pairwise_agreement"]["binary"] == {"value": None, "lower": None, "upper": None}
    assert report["code_agreement"] is None
    assert shown[0] == 0
    assert "12 of 12 judgings gave no verdict" in shown[1]
