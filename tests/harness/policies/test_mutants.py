"""Mutants: the oracle with one mutation."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.harness.policies.mutants import Mutant, MutantPolicy, mutants_of
from rehearsal_room.scenarios.format import Call, Scenario, Task, TaskKind
from tests.support.assignments import NATIVE, VOID, WRITES, assignment, played
from tests.support.prompts import BRIEFING, VOID_ORDER, calls

REFUND = ToolSpec("refund", "Refund.", {"type": "object", "properties": {}})


def of_kind(mutants: list[Mutant], kind: str) -> list[tuple[Call, ...]]:
    return [mutant.calls for mutant in mutants if mutant.kind == kind]


def test_mutants_of_a_change() -> None:
    """All single mutations of the writes, in a fixed order; lookups are not mutated."""
    get, void, refund = VOID.oracle
    mutants = mutants_of(VOID, WRITES, [VOID_ORDER, REFUND])
    assert of_kind(mutants, "dropped") == [(get, void), (get, refund)]
    assert of_kind(mutants, "changed") == [
        (get, Call("void_order", {"order_id": 8, "reason": "late"}), refund),
        (get, Call("void_order", {"order_id": 6, "reason": "late"}), refund),
        (get, Call("void_order", {"order_id": 7, "reason": "wrong"}), refund),
        (get, void, Call("refund", {"order_id": 8, "amount_cents": 4250})),
        (get, void, Call("refund", {"order_id": 6, "amount_cents": 4250})),
        (get, void, Call("refund", {"order_id": 7, "amount_cents": 4251})),
        (get, void, Call("refund", {"order_id": 7, "amount_cents": 4249})),
        (get, void, Call("refund", {"order_id": 7, "amount_cents": 42500})),
    ]
    assert of_kind(mutants, "repeated") == [
        (get, void, void, refund),
        (get, void, refund, void),
        (get, void, refund, refund),
    ]
    assert of_kind(mutants, "swapped") == [
        (get, void, Call("refund", {"order_id": 4250, "amount_cents": 7}))
    ]
    assert {mutant.answer for mutant in mutants} == {VOID.answer}
    assert mutants == mutants_of(VOID, WRITES, [VOID_ORDER, REFUND])


@pytest.mark.parametrize(
    ("value", "others"),
    [
        (7, [8, 6, 70]),
        (0, [1]),
        (2.5, [3.5, 25.0]),
        (True, [False]),
        ("2026-03-31", ["2026-04-01"]),
        ("2026-12-31 10:00", ["2027-01-01 10:00"]),
        ("ORD-1049", ["ORD-1048"]),
        ("EUR", ["EUA"]),
        ("ann@example.com", ["ann@example.coa"]),
        ("late delivery", []),
        ("Keller", []),
        ("", []),
        (None, []),
        ([1, {"sku": "A1"}], [[2, {"sku": "A1"}], [10, {"sku": "A1"}], [1, {"sku": "A2"}]]),
    ],
)
def test_changed_values(value: Any, others: list[Any]) -> None:
    """Numbers, flags, dates and codes are changed slightly, free text is not."""
    task = msgspec.structs.replace(VOID, oracle=(Call("set", {"value": value}),))
    changed = of_kind(mutants_of(task, [True]), "changed")
    found = [called[0].arguments["value"] for called in changed]
    assert [other for other in found if other != [0, {"sku": "A1"}]] == others


def test_swaps_between_writes() -> None:
    """Ids are exchanged between two writes, but not where only the order would change."""
    one, two = Call("add", {"order_id": 1, "qty": 2}), Call("add", {"order_id": 5, "qty": 3})
    task = msgspec.structs.replace(VOID, oracle=(one, two))
    swapped = of_kind(mutants_of(task, [True, True]), "swapped")
    assert (
        Call("add", {"order_id": 5, "qty": 2}),
        Call("add", {"order_id": 1, "qty": 3}),
    ) in swapped
    alike = Call("add", {"order_id": 1}), Call("add", {"order_id": 5})
    task = msgspec.structs.replace(VOID, oracle=alike)
    assert of_kind(mutants_of(task, [True, True]), "swapped") == []


def question(answer: str, kind: TaskKind = "question") -> Task:
    return Task("q", "When is order 1042 due?", "simple", kind, answer)


def answers_of(task: Task) -> list[str]:
    return [mutant.answer for mutant in mutants_of(task, [])]


def test_mutants_of_a_question() -> None:
    """Each fact that is not in the instruction is changed in all its forms, or lost with a half."""
    task = question(
        "Order 1042 is due on 14 March 2026 (2026-03-14): $1,049.50, ref AB-12C, 14 kg."
    )
    assert answers_of(task) == [
        "Order 1042 is due on 15 March 2026 (2026-03-15): $1,049.50, ref AB-12C, 14 kg.",
        "Order 1042 is due on 14 March 2026 (2026-03-14): $1,049.51, ref AB-12C, 14 kg.",
        "Order 1042 is due on 14 March 2026 (2026-03-14): $1,049.50, ref AB-13C, 14 kg.",
        "Order 1042 is due on 14 March 2026 (2026-03-14): $1,049.50, ref AB-12C, 15 kg.",
        "Order 1042 is due on 14 April 2026 (2026-04-14): $1,049.50, ref AB-12C, 14 kg.",
        "Order 1042 is due on 14 March 2027 (2027-03-14): $1,049.50, ref AB-12C, 14 kg.",
        "",
        "Order 1042 is due on 14 March",
    ]


def test_mutants_change_numbers_in_words() -> None:
    """They are changed like those in digits; "one" and numbers of the instruction stay."""
    task = Task(
        "q",
        "What of the two orders is late?",
        "simple",
        "question",
        "Three of the two orders' parts, no one else's: twenty-nine kg and nineteen (19) crates.",
    )
    assert answers_of(task)[:3] == [
        "Three of the two orders' parts, no one else's: twenty-nine kg and eighteen (18) crates.",
        "Four of the two orders' parts, no one else's: twenty-nine kg and nineteen (19) crates.",
        "Three of the two orders' parts, no one else's: twenty-eight kg and nineteen (19) crates.",
    ]


def test_a_number_in_words_does_not_become_another_one_of_the_answer() -> None:
    """To exchange two values of the answer is another mistake."""
    wrong = answers_of(question("Two orders have 3 pairs, both of size forty."))
    assert wrong[1:3] == [
        "Four orders have 3 pairs, both of size forty.",
        "Two orders have 3 pairs, both of size fifty.",
    ]


def test_only_values_that_a_verifier_names_are_changed() -> None:
    """Details beyond the task stay; where the verifier names no value of the answer, all are
    changed."""
    task = question("It costs 42.50, in three boxes, since 3 May 2026.")

    def wrong(named: str) -> list[str]:
        return [one.answer for one in mutants_of(task, [], named=named) if "costs" in one.answer]

    assert wrong("42.5\n4250 cents") == ["It costs 42.51, in three boxes, since 3 May 2026."]
    assert wrong("3")[0] == "It costs 42.50, in four boxes, since 3 May 2026."
    assert wrong("nothing") == wrong("")
    assert len(wrong("")) > 4


@pytest.mark.parametrize(
    ("day", "others"),
    [
        ("2026-12-31", ["2027-01-01", "2026-10-31", "2027-12-31"]),
        ("December 14", ["December 15", "November 14"]),
        ("31 January 2026", ["30 January 2026", "31 March 2026", "31 January 2027"]),
    ],
)
def test_mutants_change_each_part_of_a_date(day: str, others: list[str]) -> None:
    """The day, the month and the year, each by itself; a day that the other month has."""
    assert answers_of(question(f"On {day}."))[: len(others)] == [f"On {one}." for one in others]


def test_mutants_of_a_question_about_a_name() -> None:
    """In an answer without numbers the names are changed."""
    assert answers_of(question("It is handled by Maria Keller.")) == [
        "It is handled by Airam Keller.",
        "It is handled by Maria Rellek.",
        "",
        "It is handled",
    ]


def test_mutants_of_a_declined_task() -> None:
    """Where the right answer declines, the mutants claim success or are empty."""
    claimed, empty = answers_of(question("I cannot: order 1042 has shipped.", "decline"))
    assert claimed.startswith("Done")
    assert empty == ""


def test_unwanted_writes() -> None:
    """Writes of other tasks are mutations where they are given."""
    task = question("On 14 March.", "decline")
    added = of_kind(mutants_of(task, [], unwanted=[Call("void_order", {"order_id": 9})]), "added")
    assert added == [(Call("void_order", {"order_id": 9}),)]


def test_each_oracle_call_needs_a_mark() -> None:
    """`writes` must have one entry for each oracle call."""
    with pytest.raises(ValueError, match="3 oracle calls, but 1 are marked"):
        mutants_of(VOID, [True])


@pytest.mark.slow
@given(st.lists(st.tuples(calls, st.booleans()), max_size=5), st.text(max_size=80))
def test_mutants_differ(oracle: list[tuple[Call, bool]], answer: str) -> None:
    """No mutant is the oracle, and no two are the same, whatever the oracle."""
    task = Task("t", "Do it.", "simple", "change", answer, tuple(call for call, _ in oracle))
    mutants = mutants_of(task, [wrote for _, wrote in oracle])
    played = [msgspec.json.encode([mutant.calls, mutant.answer]) for mutant in mutants]
    assert len(set(played)) == len(played)
    assert msgspec.json.encode([task.oracle, answer]) not in played
    writes = {msgspec.json.encode(call) for call, wrote in oracle if wrote}
    assert len(writes) <= len(mutants)  # equal calls have equal mutants


async def test_the_mutant_policy() -> None:
    """The seed picks the mutant, which is then played; `writes_of` is called once per task."""
    asked = []

    def writes_of(scenario: Scenario, task: Task) -> list[bool]:
        asked.append((scenario.name, task.id))
        return WRITES

    policy = MutantPolicy(NATIVE, writes_of)
    picked = set()
    for seed in range(100):
        mutant = policy.mutant(assignment(seed=seed))
        assert mutant is not None
        agent = policy.agent(assignment(seed=seed))
        assert await played(agent) == (list(mutant.calls), mutant.answer)
        picked.add(mutant.note)
    assert len(picked) == len(mutants_of(VOID, WRITES, BRIEFING.tools))
    assert asked == [("shop", "void-7")]
