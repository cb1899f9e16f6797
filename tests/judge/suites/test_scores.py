"""The scores of a suite, worked out by hand."""

import math
from random import Random

import msgspec
import pytest

from rehearsal_room.harness.core.events import Ending, Label
from rehearsal_room.harness.log.schema import EpisodeRow
from rehearsal_room.judge.statistics.intervals import share_interval
from rehearsal_room.judge.suites.scores import SuiteScores, scores_of
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.suites import agentdojo, toolsandbox
from rehearsal_room.scenarios.suites import bfcl_entries as bfcl
from rehearsal_room.scenarios.suites.bfcl import agentic

DONE, WRONG, BROKEN = Label.COMPLETED, Label.AGENT_ERROR, Label.ENVIRONMENT_ERROR


def row(task: str, label: Label | None, episode: str = "e") -> EpisodeRow:
    """An episode that is over."""
    return EpisodeRow(
        episode=episode,
        attempt=1,
        scenario=task,
        task=task,
        group="g",
        member=0,
        policy="oracle",
        scenario_digest="digest",
        started_at=0.0,
        num_steps=1,
        ending=Ending.ANSWERED,
        label=label,
    )


def test_a_task_counts_by_the_share_of_its_tries() -> None:
    """A category is the mean of its tasks; failed worlds and episodes without a label are not
    counted, and stand beside it."""
    rows = [row("a", DONE), row("a", WRONG), row("b", DONE), row("b", BROKEN), row("b", None)]
    found = scores_of("other", rows, {"a": "x", "b": "x"})
    assert found.scores == {"x": 0.75}
    assert (found.overall, found.tasks, found.episodes, found.unjudged) == (0.75, 2, 5, 2)


def test_what_fails_stays_in_the_mean_of_vitabench() -> None:
    """An episode without a label, one whose customer failed and one with malformed arguments are
    failed tasks of the score, and are counted; upstream's mean leaves them out. An agent that
    says nothing has failed in both. The share of rubrics and our own look at the orders stand
    beside."""
    malformed = msgspec.structs.replace(
        row("e", WRONG, "e"), ending=Ending.FORMAT_ERROR, error="The arguments are malformed."
    )
    silent = msgspec.structs.replace(
        row("f", WRONG, "f"), ending=Ending.FORMAT_ERROR, error="The reply is empty.", share=0.0
    )
    done = msgspec.structs.replace(row("a", DONE, "a"), share=1.0)
    wrong = msgspec.structs.replace(row("b", WRONG, "b"), share=0.5)
    rows = [done, wrong, row("c", None, "c"), row("d", BROKEN, "d"), malformed, silent]
    orders = Finding("orders (beside the score)", True, "", "", "guard", share=0.3, weight=0.0)
    found = scores_of(
        "vitabench_en", rows, dict.fromkeys("abcdef", "delivery"), {"a": [orders], "f": [orders]}
    )
    assert found.scores == {"delivery": pytest.approx(1 / 6)}
    assert (found.overall, found.unjudged) == (pytest.approx(1 / 6), 3)
    assert found.groups == {
        "failed left out, as upstream": pytest.approx(1 / 3),
        "share of rubrics": pytest.approx(0.5),
        "orders as required, ours": pytest.approx(0.3),
    }
    assert found.overall_range is not None
    assert (found.overall_range.least, found.overall_range.most) == (
        pytest.approx(1 / 6),
        pytest.approx(4 / 6),
    )
    nothing = scores_of("vitabench", [row("c", None)], {"c": "delivery"}, {})
    assert (nothing.overall, nothing.groups, nothing.unjudged) == (0.0, {}, 1)


def test_pass_hat_k_is_the_chance_that_all_tries_succeed() -> None:
    """Of three tries at one task two succeeded, of the other all: pass^2 is the mean of 1/3 and
    1."""
    rows = [row("a", DONE), row("a", DONE), row("a", WRONG), *[row("b", DONE)] * 3]
    found = scores_of("other", rows, {"a": "x", "b": "x"}).pass_hat_k
    assert found == {
        "1": pytest.approx(5 / 6),
        "2": pytest.approx(2 / 3),
        "3": pytest.approx(1 / 2),
    }


def test_the_leaderboard_s_formula() -> None:
    """The overall score is the mean of three columns: non-live takes the three languages as one and
    has irrelevance, live is the mean of its tasks, those about relevance included, multi-turn of
    its categories. `just parity bfcl` compares it with upstream's own functions."""
    shares = dict.fromkeys(bfcl.CATEGORIES, 1.0)
    shares |= {"simple_java": 0.0, "live_simple": 0.0, "multi_turn_base": 0.0, "irrelevance": 0.5}
    rows, category_of = [], {}
    for category, share in shares.items():
        for number in range(4 if category == "live_multiple" else 2):
            task = f"{category}_{number}"
            category_of[task] = category
            is_done = number < share * 2 or category == "live_multiple"
            rows.append(row(task, DONE if is_done else WRONG))
    found = scores_of(bfcl.NAME, rows, category_of)
    assert found.groups == {
        "non_live": pytest.approx((2 / 3 + 3 + 0.5) / 5),
        "live": pytest.approx(12 / 14),
        "multi_turn": 0.75,
        "irrelevance": 0.75,
        "relevance": 1.0,
    }
    assert found.overall == pytest.approx(((2 / 3 + 3.5) / 5 + 12 / 14 + 0.75) / 3)


def test_a_part_of_the_leaderboard_has_no_overall_score() -> None:
    """Where a column is missing there is no overall score."""
    found = scores_of(bfcl.NAME, [row("a", DONE)], {"a": "multi_turn_base"})
    assert (found.scores, found.overall) == ({"multi_turn_base": 1.0}, None)


def test_attacks_are_counted_by_their_findings() -> None:
    """AgentDojo's own figures: utility without and under attack, and how often an attack succeeded.
    An agent that reached the user's goal and did not end the talk has not reached it; the
    attackers' goals as tasks of the user stand beside."""

    def finding(name: str, passed: bool) -> Finding:
        return Finding(name, passed, "yes", "", "goal")

    attacked = "important_instructions_slack"
    category_of = {"a": attacked, "b": "dos_slack", "c": "slack", "d": attacked}
    category_of |= {"e": "goals_slack", "f": attacked}
    rows = [row(task, DONE if task in "ac" else WRONG, f"e-{task}") for task in category_of]
    rows[3] = msgspec.structs.replace(rows[3], ending=Ending.FORMAT_ERROR)
    rows[5] = row("f", None, "e-f")  # in no score
    resisted, obeyed = finding("attack resisted", True), finding("attack resisted", False)
    findings = {
        "e-a": (finding("utility", True), resisted),
        "e-b": (finding("utility", False), obeyed),
        "e-c": (finding("utility", True),),
        "e-d": (finding("utility", True), resisted),
        "e-e": (finding("utility", False),),
    }
    found = scores_of(agentdojo.NAME, rows, category_of, findings)
    assert found.groups == {
        "utility": 1.0,
        "utility under attack": pytest.approx(1 / 3),
        "attacks that succeeded": pytest.approx(1 / 3),
    }
    assert found.scores == {attacked: 0.5, "dos_slack": 0.0, "goals_slack": 0.0, "slack": 1.0}


def test_scores_have_the_intervals_of_their_tasks() -> None:
    """A category's is that of its tasks; a mean of two has half the square root of the summed
    squares of their half widths."""
    rows = [row(f"x{n}", DONE if n < 8 else WRONG) for n in range(10)]
    rows += [row(f"y{n}", DONE if n < 5 else WRONG) for n in range(20)]
    category_of = {one.scenario: one.scenario[0] for one in rows}
    found = scores_of("other", rows, category_of)
    halves = []
    for category, size, done in (("x", 10, 8), ("y", 20, 5)):
        share = share_interval({n: [float(n < done)] for n in range(size)})
        assert share is not None
        ranged = found.ranges[category]
        assert (ranged.lower, ranged.upper) == (share.lower, share.upper)
        assert (ranged.least, ranged.most) == (share.value, share.value)
        halves.append((share.upper - share.lower) / 2)
    assert found.overall == pytest.approx(0.525) and found.overall_range is not None
    half = math.hypot(*halves) / 2
    assert found.overall_range.lower == pytest.approx(0.525 - half)
    assert found.overall_range.upper == pytest.approx(0.525 + half)


def test_entries_that_do_not_count_are_in_the_bounds() -> None:
    """An agent that breaks its world, or what reads its calls, wherever it would fail has a score
    of 1, and bounds that say what it can be; also where an entry has no verdict at all."""
    done = [row(f"x{n}", DONE) for n in range(6)]
    broken = [row(f"x{n}", BROKEN) for n in range(6, 10)]
    category_of = {f"x{n}": "x" for n in range(10)}
    found = scores_of("other", [*done, *broken], category_of)
    assert (found.scores, found.unjudged, found.tasks) == ({"x": 1.0}, 4, 6)
    assert (found.ranges["x"].least, found.ranges["x"].most) == (0.6, 1.0)
    assert found.overall_range is not None and found.overall_range.least == pytest.approx(0.6)
    unread = [
        msgspec.structs.replace(one, ending=Ending.FORMAT_ERROR, label=WRONG) for one in broken
    ]
    found = scores_of("tau2_retail", [*done, *unread], category_of)
    assert (found.scores, found.ranges["x"].least) == ({"x": 1.0}, 0.6)


def test_the_leaderboard_s_formula_has_an_interval() -> None:
    """Weights are those of the formula: the live column's are the sizes of its categories, and each
    of three languages weighs a third of another category. Many draws: the interval of the overall
    score holds the true one about 95 times in a hundred."""
    random = Random(4)
    sizes = dict.fromkeys(bfcl.CATEGORIES, 20) | {"live_multiple": 200, "live_parallel": 8}
    truth = {category: random.uniform(0.5, 0.98) for category in sizes}
    category_of = {f"{name}_{n}": name for name, size in sizes.items() for n in range(size)}
    random = Random(7)

    def drawn() -> SuiteScores:
        rows = [
            row(task, DONE if random.random() < truth[name] else WRONG)
            for task, name in category_of.items()
        ]
        return scores_of(bfcl.NAME, rows, category_of)

    live = sum(truth[name] * sizes[name] for name in bfcl.LIVE) / sum(sizes[n] for n in bfcl.LIVE)
    simple = sum(truth[f"simple_{name}"] for name in ("python", "java", "javascript")) / 3
    others = sum(
        truth[name] for name in ("multiple", "parallel", "parallel_multiple", "irrelevance")
    )
    turns = sum(truth[name] for name in bfcl.MULTI_TURN) / len(bfcl.MULTI_TURN)
    expected = ((simple + others) / 5 + live + turns) / 3
    held = 0
    for _ in range(200):
        found = drawn().overall_range
        assert found is not None
        held += found.lower <= expected <= found.upper
    assert held >= 182


def test_attacks_on_one_task_are_one() -> None:
    """Five goals of the attacker against each of eight tasks of the user, which succeed with all
    goals or none: the interval is that of eight, not of forty."""
    rows, findings = [], {}
    for task in range(8):
        for goal in range(5):
            name = f"attack_slack_user_task_{task}_injection_task_{goal}"
            rows.append(row(name, DONE if task < 6 else WRONG, name))
            findings[name] = [
                Finding(check, task < 6, "yes", "", "goal")
                for check in ("utility", "attack resisted")
            ]
    found = scores_of(
        agentdojo.NAME, rows, {one.scenario: "attack_slack" for one in rows}, findings
    )
    eight = share_interval({task: [float(task < 6)] * 5 for task in range(8)})
    assert eight is not None
    for ranged in (found.ranges["attack_slack"], found.group_ranges["utility under attack"]):
        assert (ranged.lower, ranged.upper) == (eight.lower, eight.upper)
    assert found.group_ranges["attacks that succeeded"].upper == pytest.approx(1 - eight.lower)


def test_entries_that_do_not_count_keep_their_weight_in_the_bounds() -> None:
    """An agent that breaks nine of ten entries of a large category, and all of another one: the
    score hardly has the first and lacks the second, and the bounds have both."""
    done = [row(f"x{n}", DONE) for n in range(10)] + [row(f"y{n}", DONE) for n in range(10)]
    broken = [row(f"y{n}", BROKEN) for n in range(10, 100)] + [row("z", BROKEN)]
    rows = [*done, *broken]
    live = {"x": "live_simple", "y": "live_multiple", "z": "live_relevance"}
    category_of = {one.scenario: live[one.scenario[0]] for one in rows}
    others = [name for name in bfcl.LIVE if name not in live.values()]
    rows += [row(name, DONE) for name in others]
    category_of |= {name: name for name in others}
    rows.append(row("r", DONE))
    category_of["r"] = "live_relevance"
    found = scores_of(bfcl.NAME, rows, category_of).group_ranges["live"]
    assert (found.least, found.most) == (pytest.approx((20 + len(others) + 1) / len(rows)), 1.0)
    assert scores_of("other", rows, {**category_of, "r": "w"}).overall == 1.0
    least = scores_of("other", rows, {**category_of, "r": "w"}).overall_range
    assert least is not None
    assert least.least == pytest.approx((3 + len(others) - 1 + 0.1 - 1 + 1) / (4 + len(others)))


def test_v4_counts_what_was_not_played_as_nothing() -> None:
    """Silence has a tenth: irrelevance. What is not played is named; all of it is 1. `just parity
    bfcl_v4` compares such totals with upstream's own functions."""
    names = (*bfcl.CATEGORIES, *agentic.CATEGORIES)
    silent = dict.fromkeys(("irrelevance", "live_irrelevance"), Label.COMPLETED)
    categories = {name: name for name in names}
    rows = [row(name, silent.get(name, Label.AGENT_ERROR)) for name in names]
    found = scores_of(bfcl.NAME_V4, rows, categories)
    assert (found.overall, found.not_played) == (pytest.approx(0.1), ())
    found = scores_of(bfcl.NAME_V4, [row(name, DONE) for name in names], categories)
    assert found.overall == pytest.approx(1.0)
    played = [row(name, DONE) for name in agentic.USUAL]
    found = scores_of(bfcl.NAME_V4, played, categories)
    assert found.overall == pytest.approx(0.4 / 2 * 2 / 3)
    assert set(found.not_played) == set(names) - set(agentic.USUAL)
    assert scores_of(bfcl.NAME, played, categories).not_played == ()


def test_where_shares_are_paid_a_program_that_failed_is_paid_none() -> None:
    """In ToolSandbox a scenario without milestones is worth 1 to an agent that says nothing. One of
    the user's own that raised earns nothing with it, as in upstream's runner; and an episode that
    was judged without a share, as one to which an error was planted, counts by its label."""
    given = (
        ("a", Ending.ANSWERED, DONE, 1.0),
        ("b", Ending.ANSWERED, WRONG, 0.5),
        ("c", Ending.AGENT_FAILED, WRONG, 1.0),
        ("d", Ending.ANSWERED, WRONG, None),
        ("e", Ending.WORLD_ERROR, BROKEN, 1.0),
    )
    rows = [
        msgspec.structs.replace(row(task, label, task), ending=ending, share=share)
        for task, ending, label, share in given
    ]
    categories = dict.fromkeys("abcde", toolsandbox.VARIANTS[0])
    found = scores_of(toolsandbox.NAME, rows, categories)
    assert found.scores == {toolsandbox.VARIANTS[0]: pytest.approx(1.5 / 4)}
    assert found.unjudged == 1
