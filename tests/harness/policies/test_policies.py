import json
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envpool.core.types import ToolSpec
from harness.core.errors import SettingsError
from harness.core.messages import Act, Answer, Message, Window
from harness.dialects.base import Dialect
from harness.policies.base import Agent, Assignment, Policy
from harness.policies.mutants import Mutant, MutantPolicy, mutants_of
from harness.policies.noop import NoopPolicy
from harness.policies.oracle import OraclePolicy
from harness.policies.random_calls import Pool, RandomPolicy, harvest, random_arguments
from harness.policies.scripted import ScriptedPolicy
from scenarios.api import User
from scenarios.format import Call, Scenario, Task, TaskKind
from tests.support.prompts import BRIEFING, DIALECTS, VOID_ORDER, calls

NATIVE = DIALECTS[0]
WINDOW = Window((Message("user", "Void order 7."),))
VOID = Task(
    "void-7",
    "Void order 7 and refund ORD-7.",
    "simple",
    "change",
    "Order 7 is void.",
    (
        Call("get_order", {"order_id": 7}),
        Call("void_order", {"order_id": 7, "reason": "late"}),
        Call("refund", {"order_id": 7, "amount_cents": 4250}),
    ),
)
SHOP = Scenario(
    name="shop",
    title="A shop",
    version="1",
    description="A small shop.",
    clock="2026-03-14T09:30:00Z",
    user=User("1", "Ann Lee", "clerk"),
    schema_sql="",
    data_sql="",
    rules="",
    tasks=(VOID,),
    path=Path("shop"),
    digest="0" * 32,
)


def assignment(task: Task = VOID, seed: int = 0, member: int = 0) -> Assignment:
    return Assignment("e", SHOP, task, seed, BRIEFING, member)


async def played(agent: Agent, dialect: Dialect = NATIVE) -> tuple[list[Call], str]:
    """The calls that an agent makes one a turn (those that the dialect wants first left out), and
    its answer."""
    made: list[Call] = []
    for turn in range(50):
        decision = dialect.read(await agent.reply(WINDOW), turn=turn)
        if isinstance(decision, Answer):
            assert tuple(made[: len(dialect.opening_calls())]) == dialect.opening_calls()
            return made[len(dialect.opening_calls()) :], decision.text
        assert isinstance(decision, Act)
        (call,) = decision.calls
        made.append(Call(call.name, call.arguments))
    raise AssertionError("the agent never answers")


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
async def test_the_oracle(dialect: Dialect) -> None:
    """The oracle makes the task's calls, one a turn, and gives its answer, in every dialect."""
    policy = OraclePolicy(dialect)
    for _ in range(2):
        agent = policy.agent(assignment())
        assert await played(agent, dialect) == (list(VOID.oracle), VOID.answer)


async def test_an_agent_asked_for_more() -> None:
    """An agent that has answered answers again."""
    agent = OraclePolicy(NATIVE).agent(assignment())
    await played(agent)
    assert await agent.reply(WINDOW) == await agent.reply(WINDOW)


async def test_noop() -> None:
    """The no-op says nothing."""
    assert await played(NoopPolicy(NATIVE).agent(assignment())) == ([], "")


# Scripts


def script(path: Path, *lines: Any) -> Path:
    file = path / "script.jsonl"
    file.write_text("".join(json.dumps(line) + "\n\n" for line in lines), encoding="utf-8")
    return file


def line(answer: Any = "Done.", **changed: Any) -> dict[str, Any]:
    called = [{"name": "ping"}, {"name": "void_order", "arguments": {"order_id": 7}}]
    return {"scenario": "shop", "task": "void-7", "calls": called, "answer": answer, **changed}


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
async def test_a_script(tmp_path: Path, dialect: Dialect) -> None:
    """A script's calls are made in order, and its answer is given."""
    policy = ScriptedPolicy(script(tmp_path, line()), dialect)
    wanted = [Call("ping"), Call("void_order", {"order_id": 7})]
    assert await played(policy.agent(assignment()), dialect) == (wanted, "Done.")


async def test_lines_go_by_member(tmp_path: Path) -> None:
    """Several lines for a task serve a group's members in order, and then from the start."""
    policy = ScriptedPolicy(script(tmp_path, line("one"), line("two")), NATIVE)
    agents = [policy.agent(assignment(member=member)) for member in (0, 1, 2)]
    assert [(await played(agent))[1] for agent in agents] == ["one", "two", "one"]


def test_a_task_without_a_line(tmp_path: Path) -> None:
    """A task that the script lacks is named before the run starts."""
    policy = ScriptedPolicy(script(tmp_path, line()), NATIVE)
    policy.require([("shop", "void-7")])
    with pytest.raises(SettingsError, match="no line for task 'void-8' of scenario 'shop'"):
        policy.require([("shop", "void-7"), ("shop", "void-8")])


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (line(answer=7), "line 3: answer: expected `str`, got `int`"),
        (line(calls=[{"arguments": {}}]), r"line 3: calls\[0\]: object missing required field"),
        (line(extra=1), "line 3: object contains unknown field `extra`"),
        (["no object"], "line 3: expected `object`, got `array`"),
    ],
)
def test_a_bad_line(tmp_path: Path, bad: Any, sentence: str) -> None:
    """A bad script names the file, the line and the field."""
    file = script(tmp_path, line(), bad)
    with pytest.raises(SettingsError, match=f"^{file}: {sentence}"):
        ScriptedPolicy(file, NATIVE)


def test_a_script_that_is_none(tmp_path: Path) -> None:
    """Broken JSON, a missing file and bytes that are no text are one sentence each."""
    file = tmp_path / "script.jsonl"
    with pytest.raises(SettingsError, match=r"script\.jsonl: the script cannot be read"):
        ScriptedPolicy(file, NATIVE)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="cannot be read as UTF-8"):
        ScriptedPolicy(file, NATIVE)
    file.write_text('{"scenario": ')
    with pytest.raises(SettingsError, match="line 1: not valid JSON"):
        ScriptedPolicy(file, NATIVE)
    file.write_text(json.dumps(line("<think>")))
    with pytest.raises(SettingsError, match="line 1: answer: an answer cannot hold <think>"):
        ScriptedPolicy(file, NATIVE)


# Random calls


class Line(msgspec.Struct, forbid_unknown_fields=True):
    sku: str
    quantity: Annotated[int, msgspec.Meta(ge=1, le=5)]


class Everything(msgspec.Struct, forbid_unknown_fields=True):
    order_id: Annotated[int, msgspec.Meta(ge=1)]
    reason: Literal["late", "wrong"]
    day: Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d{2}-\d{2}$")]
    code: Annotated[str, msgspec.Meta(min_length=3, max_length=5)]
    rate: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    lines: Annotated[list[Line], msgspec.Meta(min_length=1, max_length=3)]
    plate: Annotated[str, msgspec.Meta(pattern=r"^[A-Z]{1,3}-[A-Z]{2}\.? \d+#?$")]
    state: Annotated[str, msgspec.Meta(pattern=r"^[A-Z]{2}$")]
    minus: Annotated[int, msgspec.Meta(lt=0)]
    dozens: Annotated[int, msgspec.Meta(multiple_of=12, ge=12)]
    express: bool
    note: str | None = None
    parent: int | None = None
    by_day: dict[str, int] = {}
    anything: Any = None


SCHEMA = msgspec.json.schema(Everything)
POOL: Pool = {
    "id": [7, -1, "x"],
    "code": ["abc", "too long a code"],
    "quantity": [3, 99],
    "day": ["now"],
}


@given(st.integers(), st.sampled_from([None, POOL]))
def test_random_arguments_fit(seed: int, pool: Any) -> None:
    """Whatever the seed and the pool, the arguments fit the schema; same seed, same arguments."""
    drawn = random_arguments(SCHEMA, Random(seed), pool)
    assert msgspec.convert(drawn, Everything)
    assert drawn == random_arguments(SCHEMA, Random(seed), pool)


def test_random_arguments_use_the_pool() -> None:
    """Plausible values are taken most of the time, and optional fields are left out at times."""
    drawn = [random_arguments(SCHEMA, Random(seed), POOL) for seed in range(200)]
    assert sum(arguments["order_id"] == 7 for arguments in drawn) > 100
    assert 0 < sum("note" in arguments for arguments in drawn) < 200


def test_harvest() -> None:
    """Ids and words of a result become plausible values, each once."""
    pool: dict[str, list[Any]] = {}
    text = '{"id":7,"status":"open","price":4.5,"lines":[{"sku":"A\\"1"},{"sku":"B"}],"id":7}'
    harvest(f"Tool response:\n{text}", pool)
    assert pool == {"id": [7], "status": ["open"], "sku": ['A"1', "B"]}


@given(st.text())
def test_harvest_takes_any_text(text: str) -> None:
    """Results may hold any text."""
    harvest(text, {})


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
async def test_random_calls(dialect: Dialect) -> None:
    """One to num_calls calls of known tools, the same for the same seed."""
    policy = RandomPolicy(dialect, num_calls=3)
    names = {tool.name for tool in BRIEFING.tools}
    made = [await played(policy.agent(assignment(seed=seed)), dialect) for seed in range(20)]
    again = [await played(policy.agent(assignment(seed=seed)), dialect) for seed in range(20)]
    assert made == again
    assert {len(called) for called, _ in made} == {1, 2, 3}
    assert {call.name for called, _ in made for call in called} == names


async def test_random_calls_use_results() -> None:
    """Ids in earlier results turn up in later calls."""
    briefing = msgspec.structs.replace(BRIEFING, tools=BRIEFING.tools[:1])
    seen = Window((Message("tool", '{"order_id": 987654}', call_id="c0-0"),))
    asked = []
    for seed in range(20):
        agent = RandomPolicy(NATIVE).agent(Assignment("e", SHOP, VOID, seed, briefing))
        decision = NATIVE.read(await agent.reply(seen), turn=0)
        assert isinstance(decision, Act)
        asked.append(decision.calls[0].arguments["order_id"])
    assert asked.count(987654) > 10


# Mutants

WRITES = [False, True, True]
REFUND = ToolSpec("refund", "Refund.", {"type": "object", "properties": {}})


def of_kind(mutants: list[Mutant], kind: str) -> list[tuple[Call, ...]]:
    return [mutant.calls for mutant in mutants if mutant.kind == kind]


def test_mutants_of_a_change() -> None:
    """Every single mistake in the writes, in a fixed order; lookups are left alone."""
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
    """Numbers, flags, dates and codes are changed a little, free text is not."""
    task = msgspec.structs.replace(VOID, oracle=(Call("set", {"value": value}),))
    changed = of_kind(mutants_of(task, [True]), "changed")
    found = [called[0].arguments["value"] for called in changed]
    assert [other for other in found if other != [0, {"sku": "A1"}]] == others


def test_swaps_between_writes() -> None:
    """Ids change places between two writes, but not where only the order would change."""
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


def told(answer: str, kind: TaskKind = "question") -> Task:
    return Task("q", "When is order 1042 due?", "simple", kind, answer)


def answers_of(task: Task) -> list[str]:
    return [mutant.answer for mutant in mutants_of(task, [])]


def test_mutants_of_a_question() -> None:
    """Each fact that the instruction lacks is altered in all its forms, or lost with a half."""
    task = told("Order 1042 is due on 14 March 2026 (2026-03-14): $1,049.50, ref AB-12C, 14 kg.")
    assert answers_of(task) == [
        "Order 1042 is due on 15 March 2026 (2026-03-15): $1,049.50, ref AB-12C, 14 kg.",
        "Order 1042 is due on 14 March 2026 (2026-03-14): $1,049.51, ref AB-12C, 14 kg.",
        "Order 1042 is due on 14 March 2026 (2026-03-14): $1,049.50, ref AB-13C, 14 kg.",
        "Order 1042 is due on 14 March 2026 (2026-03-14): $1,049.50, ref AB-12C, 15 kg.",
        "",
        "Order 1042 is due on 14 March",
    ]


def test_mutants_of_a_question_about_a_name() -> None:
    """An answer without numbers has its names altered."""
    assert answers_of(told("It is handled by Maria Keller.")) == [
        "It is handled by Airam Keller.",
        "It is handled by Maria Rellek.",
        "",
        "It is handled",
    ]


def test_mutants_of_a_declined_task() -> None:
    """Where the agent should decline, it claims success or says nothing."""
    claimed, empty = answers_of(told("I cannot: order 1042 has shipped.", "decline"))
    assert claimed.startswith("Done")
    assert empty == ""


def test_unwanted_writes() -> None:
    """Writes of other tasks are mistakes when they are given."""
    task = told("On 14 March.", "decline")
    added = of_kind(mutants_of(task, [], unwanted=[Call("void_order", {"order_id": 9})]), "added")
    assert added == [(Call("void_order", {"order_id": 9}),)]


def test_marks_must_fit() -> None:
    """One mark for each oracle call."""
    with pytest.raises(ValueError, match="3 oracle calls, but 1 are marked"):
        mutants_of(VOID, [True])


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
    """The seed picks the mistake, which is then played; writes are asked for once a task."""
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


def test_policies_have_names(tmp_path: Path) -> None:
    """Each policy is logged under the word that chooses it."""
    policies: list[Policy] = [
        OraclePolicy(NATIVE),
        NoopPolicy(NATIVE),
        RandomPolicy(NATIVE),
        ScriptedPolicy(script(tmp_path), NATIVE),
        MutantPolicy(NATIVE, lambda scenario, task: []),
    ]
    names = ["oracle", "noop", "random", "scripted", "mutant"]
    assert [policy.name for policy in policies] == names
