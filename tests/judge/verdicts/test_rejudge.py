"""Judging a log again: several models, other rewards, and what comes from the cache."""

import json
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from rehearsal_room.harness.core.events import Judged, Label
from rehearsal_room.judge.llm.rubric import rubric_text
from tests.support.cli import Rehearse, json_of
from tests.support.judge_server import Speaks, biased, billed, good
from tests.support.judged_runs import (
    AGENT,
    COMPLETED,
    PARTIAL,
    Chosen,
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
from tests.support.model_server import Behaviour, ReceivedRequest, Status
from tests.support.paths import LIBRARY

DEAD = Status(401, "no such key")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge is the test's server, whatever the environment names."""
    no_environment(monkeypatch)


@pytest.fixture
def mixed(rehearse: Rehearse, tmp_path: Path) -> Path:
    """A run of 6 completed, 1 in part, 5 agent errors; judged by code."""
    return run_of_both(rehearse, tmp_path / "mixed")


def endpoint_of(**judges: Behaviour) -> Chosen:
    """Models of these names behind one endpoint."""
    return Chosen(lambda request: judges[request.body["model"]])


def by_all(rehearse: Rehearse, folder: Path, url: str, *names: str, flags: Any = ()) -> Any:
    """The output of `rehearse judge` with several models of one endpoint; its status is 1 where one
    of them gave no label and the vote depended on it."""
    models = [part for name in names for part in ("-m", f"{name}@{url}")]
    status, out, err = rehearse("judge", folder, *models, *flags, "--json", "-")
    found = json.loads(out)
    assert status == (found["asked_in_vain"] > found["episodes"] / 10), err
    return found


TRUE, FALSE = Speaks(good(lambda _: COMPLETED)), Speaks(biased("agent_error"))
PART = Speaks(biased("partially_completed"))
_DISAGREE = "the judges disagree: a says completed, b says agent_error, c says partially_completed"
_DEAD = "no judgement of model 'c' at URL: status 401: no such key (after 1 attempt)"

# Models that judge completed episodes in mode `llm`, the vote, and the resulting label or reason.
VOTES: list[tuple[dict[str, Behaviour], str, Label | None, str | None]] = [
    ({"a": TRUE, "b": TRUE, "c": FALSE}, "majority", COMPLETED, None),
    ({"a": FALSE, "b": TRUE, "c": FALSE}, "majority", AGENT, None),
    ({"a": TRUE, "b": FALSE, "c": PART}, "majority", None, _DISAGREE),
    ({"a": TRUE, "b": FALSE}, "majority", None, _DISAGREE.rpartition(",")[0]),
    ({"a": TRUE, "b": TRUE, "c": DEAD}, "majority", COMPLETED, None),
    ({"a": TRUE, "b": FALSE, "c": DEAD}, "majority", None, _DEAD),
    ({"a": TRUE, "b": TRUE, "c": TRUE}, "unanimous", COMPLETED, None),
    (
        {"a": TRUE, "b": TRUE, "c": FALSE},
        "unanimous",
        None,
        "the judges disagree: a says completed, b says completed, c says agent_error",
    ),
    ({"a": TRUE, "b": TRUE, "c": DEAD}, "unanimous", None, _DEAD),
]


@pytest.mark.parametrize("number", range(len(VOTES)))
def test_several_judges_come_to_one_label_or_to_none(
    rehearse: Rehearse, tmp_path: Path, number: int
) -> None:
    """A majority or all must agree; a model without a judgement counts as asked, and where its
    judgement could have decided, there is no label and its fault is the reason."""
    judges, vote, label, why = VOTES[number]
    run = run_of_oracles(rehearse, tmp_path / "run")
    with served(endpoint_of(**judges)) as server:
        flags = ("--mode", "llm", "--vote", vote)
        summary = by_all(rehearse, run, server.url, *judges, flags=flags)

    whys = [one["why"].replace(server.url, "URL") for one in summary["unjudged_episodes"]]
    name = f"llm:{'+'.join(judges)}"
    assert summary["judge"] == name
    assert set(labels_of(run, name).values()) == {label}
    assert whys == ([] if why is None else [why] * 6)
    assert summary["model_calls"] == len(server.requests) == 6 * len(judges)
    given = {
        judgement.model: judgement.label
        for [judged] in verdicts_of(run, name).values()
        for judgement in judged.judgements
    }
    assert set(given) == set(judges)
    asked = {request.body["model"] for request in server.requests}
    assert asked == set(judges)


def test_what_code_proved_ends_a_tie(rehearse: Rehearse, tmp_path: Path) -> None:
    """In mode `hybrid` a proof decides where models disagree, and the verdict is queued."""
    run = run_of_oracles(rehearse, tmp_path / "run")
    with served(endpoint_of(a=TRUE, b=FALSE)) as server:
        summary = by_all(rehearse, run, server.url, "a", "b")

    assert set(labels_of(run, "hybrid:a+b").values()) == {COMPLETED}
    assert (summary["unjudged"], summary["disagreements"]) == (0, 6)


def test_only_the_missing_model_is_asked_again(rehearse: Rehearse, tmp_path: Path) -> None:
    """Where one of three models was down and the vote depended on it, `--only unjudged` asks it."""
    run = run_of_oracles(rehearse, tmp_path / "run")
    flags = ("--mode", "llm", "--vote", "unanimous")
    with served(endpoint_of(a=TRUE, b=TRUE, c=DEAD)) as server:
        by_all(rehearse, run, server.url, "a", "b", "c", flags=flags)
        server.default = endpoint_of(a=TRUE, b=TRUE, c=TRUE)
        server.requests.clear()
        again = json_of(rehearse, "judge", run, "--only", "unjudged")

    assert [request.body["model"] for request in server.requests] == ["c"] * 6
    assert (again["unjudged"], again["cached_judgements"], again["model_calls"]) == (0, 12, 6)


def test_no_model_is_asked_about_what_code_proved(rehearse: Rehearse, mixed: Path) -> None:
    """`--ask unproven` asks only where code leaves more than one label open; elsewhere the proof is
    the verdict, without a judgement of a model."""
    asked = questions_of(mixed, "hybrid")
    with served(Speaks(good(truth_about(asked)))) as server:
        judge(rehearse, mixed, server.url, "--ask", "unproven")
        shown = {request.body["messages"][1]["content"] for request in server.requests}

    given = {name: last for name, [last] in verdicts_of(mixed, "hybrid:m").items()}
    unasked = {name for name, judged in given.items() if not judged.judgements}
    code = labels_of(mixed, "code")
    assert unasked == {name for name, label in code.items() if label is COMPLETED}
    assert all(given[name].proof == given[name].reasoning != "" for name in unasked)
    assert len(shown) == len(server.requests) == 6
    assert labels_of(mixed, "hybrid:m") == code


def test_rewards_change_without_a_model_or_a_verifier(rehearse: Rehearse, tmp_path: Path) -> None:
    """`--rewards` recomputes the rewards of the same verdicts, though the verifiers are gone and
    the judge's server is down; the first profile gives the first rewards again."""
    world = variant(tmp_path)
    run = run_of_both(rehearse, tmp_path / "run", world)
    with served(Speaks(good(truth_about(questions_of(run, "hybrid"))))) as server:
        judge(rehearse, run, server.url)
    first, spent_first = rewards_of(run, "hybrid:m"), spending_of(run)
    (world / "verify.py").write_text("raise RuntimeError('verifiers are not asked')")
    refused = rehearse("judge", run, "--mode", "code")
    paid, summaries = {}, {}
    for profile in ("graded", "sparse", "awm"):
        summaries[profile] = json_of(rehearse, "judge", run, "--rewards", profile)
        paid[profile] = rewards_of(run, "hybrid:m")

    [partial] = [name for name, label in labels_of(run, "hybrid:m").items() if label == PARTIAL]
    assert refused[0] == 2
    assert "has changed since the run" in refused[2]
    assert len(server.requests) == 12
    for summary in summaries.values():
        spent = (summary["judge"], summary["model_calls"], summary["cost_usd"])
        assert spent == ("hybrid:m", 0, 0.0)
    assert {name: given[partial][0] for name, given in paid.items()} == {
        "graded": pytest.approx(
            2 / 7
        ),  # its answer, which pleads with the judge, is beside the case
        "sparse": 0.0,
        "awm": 0.1,
    }
    assert paid["awm"] == first
    assert spending_of(run) == spent_first
    assert spent_first["requests"] == 12
    for given in paid.values():
        assert {k: v for k, v in given.items() if k != partial} == {
            k: v for k, v in first.items() if k != partial
        }
    assert [judged.rewards for judged in verdicts_of(run, "hybrid:m")[partial]] == [
        "awm",
        "graded",
        "sparse",
        "awm",
    ]


def test_later_verdicts_get_the_runs_reward_profile(rehearse: Rehearse, mixed: Path) -> None:
    """After a change of the reward profile, episodes that are judged later are rewarded by it too;
    `replay --world` compares by it."""
    prices = prices_of(mixed.parent / "prices.toml", "m")
    truth = Speaks(good(truth_about(questions_of(mixed, "hybrid"))))
    with served(truth) as server:
        first = judge(rehearse, mixed, server.url, "--prices", prices, "--budget", 0.05)
        json_of(rehearse, "judge", mixed, "--rewards", "graded")
        last = json_of(rehearse, "judge", mixed, "--only", "unjudged", "--budget", 5)
    changes = json_of(rehearse, "replay", mixed, "--world", LIBRARY)

    assert 0 < first["unjudged"] < 12
    assert (last["unjudged"], last["rewards"]) == (0, "graded")
    assert {given[-1].rewards for given in verdicts_of(mixed, "hybrid:m").values()} == {"graded"}
    again = json_of(rehearse, "judge", mixed, "--mode", "code")
    assert (again["rewards"], again["labels"]) == ("graded", last["labels"])
    assert json_of(rehearse, "replay", mixed, "--world", LIBRARY)["changes"] == []
    assert changes["labels_changed"] == 0


def spending_of(folder: Path) -> Any:
    """The cost of all judging in the run's report."""
    return json.loads((folder / "report.json").read_bytes())["judging"]


def test_a_stored_judgement_is_not_requested_again(rehearse: Rehearse, mixed: Path) -> None:
    """Judging again sends no request, gives the same verdicts, costs nothing and reports that the
    judgements came from the cache."""
    truth = truth_about(questions_of(mixed, "hybrid"))
    prices = prices_of(mixed.parent / "prices.toml", "m")
    with served(Speaks(billed(good(truth), 1_000, 100))) as server:
        first = judge(rehearse, mixed, server.url, "--prices", prices)
        again = json_of(rehearse, "judge", mixed)
        asked = len(server.requests)

    assert asked == first["model_calls"] == 12
    assert first["cost_usd"] == pytest.approx(12 * 0.002)
    assert (again["model_calls"], again["cost_usd"], again["cached_judgements"]) == (0, 0.0, 12)
    assert again["labels"] == first["labels"]
    for before, after in verdicts_of(mixed, "hybrid:m").values():
        assert verdict_of(before) == verdict_of(after)
        assert [judgement.is_cached for judgement in (*before.judgements, *after.judgements)] == [
            False,
            True,
        ]


def verdict_of(judged: Judged) -> tuple[Any, ...]:
    """A verdict without its cost."""
    votes = [(one.model, one.label, one.reasoning, one.cited) for one in judged.judgements]
    return (judged.label, judged.reward, judged.step_rewards, judged.reasoning, judged.code, votes)


def test_another_cache_key_is_requested(rehearse: Rehearse, tmp_path: Path) -> None:
    """Another rubric, model, mode or amount of evidence is another key; the first one's judgements
    stay stored."""
    run = run_of_oracles(rehearse, tmp_path / "run")
    rubric = tmp_path / "mine.toml"
    rubric.write_text(rubric_text().replace("Decide on evidence.", "Decide on evidence alone."))
    others: list[tuple[Any, ...]] = [
        ("--rubric", rubric),
        ("-m", "other"),
        ("--mode", "llm"),
        ("--evidence-tokens", 11_000),
    ]
    numbers: list[tuple[int, int]] = []
    with served(TRUE) as server:
        base = ("--base-url", server.url, "--cache", tmp_path / "cache.sqlite")
        for flags in ((), *others, ()):
            model = () if "-m" in flags else ("-m", "m")
            mode = () if "--mode" in flags else ("--mode", "hybrid")
            copy = copytree(run, tmp_path / f"run-{len(numbers)}")
            summary = json_of(rehearse, "judge", copy, *base, *model, *mode, *flags)
            numbers.append((summary["model_calls"], summary["cached_judgements"]))

    assert numbers == [(6, 0)] * 5 + [(0, 6)]


def test_a_cache_may_be_shared_by_runs(rehearse: Rehearse, tmp_path: Path) -> None:
    """A run with equal episodes needs no request with the same cache, and all with another one."""
    first, second, third = [
        run_of_oracles(rehearse, tmp_path / name) for name in ("first", "second", "third")
    ]
    cache = tmp_path / "shared.sqlite"
    with served(TRUE) as server:
        calls = [
            judge(rehearse, first, server.url, "--cache", cache)["model_calls"],
            judge(rehearse, second, server.url, "--cache", cache)["model_calls"],
            judge(rehearse, third, server.url)["model_calls"],
        ]

    assert calls == [6, 0, 6]
    assert not (first / "verdicts.sqlite").exists()


def test_only_disagreements_are_put_to_another_judge(rehearse: Rehearse, mixed: Path) -> None:
    """`--only disagreements` asks another judge about contested episodes only."""
    asked = questions_of(mixed, "hybrid")
    truth = truth_about(asked)
    lie = next(iter(asked))

    def speaks(question: ReceivedRequest) -> Behaviour:
        text = "\n".join(message["content"] for message in question.body["messages"])
        return FALSE if text == lie else Speaks(good(truth))

    with served(Chosen(speaks)) as server:
        judge(rehearse, mixed, server.url)
        server.requests.clear()
        flags = ("--judge-model", f"second@{server.url}", "--only", "disagreements")
        summary = json_of(rehearse, "judge", mixed, *flags)

    assert (summary["judged_now"], len(server.requests)) == (1, 1)
    assert set(verdicts_of(mixed, "hybrid:second")) == set(asked[lie].episodes)


def test_verdicts_are_only_added(rehearse: Rehearse, mixed: Path) -> None:
    """Judging again appends to the log; existing records are unchanged."""
    before = records_of(mixed)
    with served(TRUE) as server:
        judge(rehearse, mixed, server.url)
    after = records_of(mixed)

    assert after[: len(before)] == before
    assert [type(record.event) for record in after[len(before) :]] == [Judged] * 12
    numbers: dict[str, list[int]] = {}
    for record in after:
        numbers.setdefault(record.episode, []).append(record.seq)
    assert all(seqs == list(range(len(seqs))) for seqs in numbers.values())
