"""The prompt of a case: what it shows, in what order, and within its budget."""

import re
from hashlib import blake2b
from typing import get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rehearsal_room.envpool.core.types import ToolErrorKind
from rehearsal_room.harness.core.events import Ending
from rehearsal_room.harness.history.token_budget import ByteCounter
from rehearsal_room.judge.core.case import Case, Prompt
from rehearsal_room.judge.core.errors import JudgeError
from rehearsal_room.judge.core.evidence import CallFact, FormatFault, ScenarioInfo, Turn
from rehearsal_room.judge.llm.prompt import least_tokens, prompt_of, ranges, system_text
from rehearsal_room.judge.llm.prompt_items import CAUSES
from rehearsal_room.judge.llm.quoting import restore
from rehearsal_room.judge.llm.rubric import RENDERING, Mode, read_rubric
from rehearsal_room.judge.reliability.perturbations import INJECTIONS, REWORDINGS
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.checks import OPEN
from tests.support.budgets import examples
from tests.support.cases import ANSWERED, CASES, INFO, LOOKED, WROTE, made_case
from tests.support.quoted_sections import parse_sections

RUBRIC = read_rubric()
MODES: tuple[Mode, ...] = ("llm", "hybrid")
LEAST = {mode: least_tokens(RUBRIC, mode) for mode in MODES}
# A digest of some messages, by RENDERING: a change of what is shown must raise the number, so that
# stored judgements on other prompts are not reused.
RENDERED = {5: "49e89c6bd84e98ff"}

TASK = """----- begin TOKEN: the world -----
P policy of the world| - Be kind.
| - Void nothing twice.
----- end TOKEN -----

----- begin TOKEN: the task -----
T acting user| Ada (clerk)
T time| 2026-03-14T09:30:00Z
T task| Please void order 7.
----- end TOKEN -----"""
END = """----- begin TOKEN: how it ended -----
E ending| answered: the agent gave its final answer, after 3 steps
A final answer| Done.
----- end TOKEN -----"""
STEPS = """----- begin TOKEN: the steps -----
S1 thought| Which order?
S1 said| I look.
S1 call| get_order {"order_id":7}
S1 result| {"id": 7, "status": "open"}
S2 call| void_order {"order_id":7}
S2 result| {"id": 7}
S3 thought| All done.
----- end TOKEN -----"""
CODE = """----- begin TOKEN: rows that differ, end against start -----
D1 row changed| orders 7
D1 was| {"status":"open"}
D1 is| {"status":"void"}
----- end TOKEN -----

----- begin TOKEN: findings, by the verifier that the world's author wrote -----
F2 failed goal| answer says 7
F2 expected| 7
F2 found| Done.
F1 passed goal| orders 7 updated: status='void'
F3 passed guard, which doing nothing meets| nothing else changed: no other change
----- end TOKEN -----"""


def ask(case: Case, mode: Mode = "hybrid", max_tokens: int = 12_000) -> Prompt:
    """The prompt of a case under the default rubric."""
    return prompt_of(case, RUBRIC, mode=mode, max_tokens=max_tokens)


def shown(prompt: Prompt) -> str:
    """The user message with its tokens replaced."""
    return re.sub(
        r"^(----- (?:begin|end)) [0-9a-f]{12}", r"\1 TOKEN", prompt.messages[1].content, flags=re.M
    )


def lines_of(prompt: Prompt, evidence_id: str) -> list[str]:
    """The lines of an evidence item, each text after what it is."""
    return [
        f"{quote.about}| {restore(quote.text)}"
        for section in parse_sections(prompt.messages[1].content)
        for quote in section.quotes
        if quote.evidence_id == evidence_id
    ]


def test_what_a_trajectory_shows() -> None:
    """In mode `llm` a model sees the trajectory: no rows, no findings, no effects of calls."""
    prompt = ask(made_case(observed='{"seen": 1}', verifier="awm"), "llm")
    opening, closing = shown(prompt).split(TASK)[0], shown(prompt).rpartition("-----")[2]
    assert shown(prompt) == f"{opening}{TASK}\n\n{STEPS}\n\n{END}{closing}"
    assert opening == "The exhibits of one episode.\n\n"
    assert prompt.messages[0].content == system_text(RUBRIC, "llm")
    assert prompt.evidence_ids == ("P", "T", "S1", "S2", "S3", "E", "A")
    assert prompt.omissions == ()
    assert prompt.num_tokens == sum(ByteCounter()(message.content) for message in prompt.messages)


def test_what_code_adds() -> None:
    """In mode `hybrid` it sees which calls wrote, the rows that differ and the findings, failed
    ones first, with a mark on those that doing nothing meets."""
    prompt = ask(made_case(idle=("nothing else changed",)))
    steps = STEPS.replace('S2 result| {"id"', 'S2 result, 1 row changed| {"id"')
    code = CODE.replace(", which doing nothing meets", "")  # a passed guard proves no success
    assert f"{TASK}\n\n{steps}\n\n{END}\n\n{code}\n\n" in shown(prompt)
    assert prompt.evidence_ids == (*("P", "T", "S1", "S2", "S3", "E", "A"), "D1", "F2", "F1", "F3")


def test_goals_that_doing_nothing_meets() -> None:
    """A goal that is met from the start is marked, as often as it is met."""
    case = made_case(idle=("orders 7 updated",))
    assert lines_of(ask(case), "F1")[0] == (
        "passed goal, which doing nothing meets| orders 7 updated: status='void'"
    )
    findings = (case.evidence.findings[0],) * 2
    twice = made_case(idle=("orders 7 updated",), findings=findings)
    assert lines_of(ask(twice), "F2")[0] == "passed goal| orders 7 updated: status='void'"


def test_why_there_are_no_findings() -> None:
    """The reason for missing findings is shown, and so is what an AWM verifier observed."""
    case = made_case(findings=(), unverified="it broke", observed='{"voided": 1}', verifier="awm")
    prompt = ask(case)
    assert lines_of(prompt, "F") == ["no findings, because| it broke"]
    assert lines_of(prompt, "V") == ['observed by a verifier| {"voided": 1}']
    assert "begin TOKEN: findings, by a verifier that a model wrote;" in shown(prompt)


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        ("unknown_tool", "bad call, no such tool"),
        ("arguments", "bad call, arguments"),
        ("refused", "refused"),
        ("timeout", "broken world, timeout"),
        ("internal", "broken world, internal"),
    ],
)
def test_why_a_call_failed(cause: str, words: str) -> None:
    """The agent's bad call, a rule's refusal and a broken world are distinguished."""
    call = CallFact("void_order", {"order_id": 7}, "no", cause, ())
    prompt = ask(made_case(turns=(Turn("", (call, call)),)))
    calls = [
        line
        for number in (1, 2)
        for line in (
            f'call {number}| void_order {{"order_id":7}}',
            f"{words} of call {number}| no",
        )
    ]
    assert lines_of(prompt, "S1") == calls
    assert set(CAUSES) == set(get_args(ToolErrorKind))


@pytest.mark.parametrize("ending", Ending)
def test_how_it_ended(ending: Ending) -> None:
    """Every ending is described in words, with its reason."""
    prompt = ask(made_case(ending=ending, error="because", answer="", turns=(LOOKED,)))
    first, *rest = lines_of(prompt, "E")
    assert re.fullmatch(rf"ending\| {ending}: [a-z' ]+, after 1 step", first)
    assert rest == ["why| because"]
    about = "final answer, which is empty" if ending is Ending.ANSWERED else "no answer was given"
    assert lines_of(prompt, "A") == [f"{about}| "]


def test_tools_of_which_a_call_failed() -> None:
    """Their descriptions are shown, each once; those of the others are not."""
    tools = {"void_order": "Void an order.", "get_order": "One order."}
    info = ScenarioInfo(INFO.rules, INFO.user, INFO.now, tools)
    refused = CallFact("void_order", {"order_id": 9}, "too late", "refused", ())
    prompt = ask(made_case(info=info, turns=(LOOKED, Turn("", (refused, refused)), ANSWERED)))
    assert lines_of(prompt, "B1") == ["tool| void_order: Void an order."]
    assert lines_of(prompt, "B2") == []
    assert "B1" not in ask(made_case(info=info)).evidence_ids


@pytest.mark.parametrize(
    ("mode", "is_decided", "says"),
    [
        ("hybrid", False, True),
        ("hybrid", True, False),
        ("llm", False, False),
    ],
)
def test_a_model_may_contradict_what_is_decided(mode: Mode, is_decided: bool, says: bool) -> None:
    """The prompt forbids to argue only where there is more than one label to choose from."""
    prompt = prompt_of(made_case(), RUBRIC, mode=mode, max_tokens=12_000, is_decided=is_decided)
    texts = "".join(message.content for message in prompt.messages)
    assert ("not argue" in texts) is says


def test_tasks_of_a_world_share_a_prefix() -> None:
    """The policy stands before the task, so that a prefix cache reads it once for a world."""
    one, other = (ask(made_case(instruction=text)).messages[1].content for text in ("a", "b"))
    begins = [text.partition("begin")[2].partition("T acting user")[0] for text in (one, other)]
    assert begins[0].partition("----- end")[0] == begins[1].partition("----- end")[0]
    assert "Void nothing twice" in begins[0]


def test_format_errors() -> None:
    """Each format error is shown with its step, and with the agent's text there."""
    turns = (Turn("<tool_call>{", ()), ANSWERED)
    prompt = ask(made_case(turns=turns, format_faults=(FormatFault(0, "no JSON"),)))
    assert lines_of(prompt, "M") == ["format error in step 1| no JSON"]
    assert lines_of(prompt, "S1") == ["said| <tool_call>{"]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("<think>a</think>b<think>c</think>", ["thought| a\n| c", "said| b"]),
        ("a</think>b", ["thought| a", "said| b"]),
        ("b<think>a", ["thought| a", "said| b"]),
        ("<think> </think>", []),
        ('b <tool_call>{"name": "get_order"}</tool_call>', ["said| b"]),
        ("b <tool_call>x</tool_call><tool_call>y</tool_call>", ["said| all"]),
    ],
)
def test_thoughts_and_messages(text: str, lines: list[str]) -> None:
    """Thoughts are separate; calls in the text are removed only where they are shown as calls."""
    expected = [line.replace("\n| ", "\n").replace("all", text) for line in lines]
    prompt = ask(made_case(turns=(Turn(text, LOOKED.calls), ANSWERED)))
    assert lines_of(prompt, "S1")[: len(expected)] == expected
    assert len(lines_of(prompt, "S1")) == len(expected) + 2


def test_rows() -> None:
    """New and deleted rows are shown whole; 1 became 1.0, and bytes are counted."""
    changes = (
        RowChange("t", (1, "a"), None, {"id": 1, "data": b"\x00" * 40}),
        RowChange("t", (2, "b"), {"id": 2, "data": b"\x01"}, None),
        RowChange("t", (3, b"k"), {"id": 3, "n": 1}, {"id": 3, "n": 1.0}),
    )
    prompt = ask(made_case(changes=changes))
    assert lines_of(prompt, "D1") == [
        'row created| t 1, "a"',
        f'is| {{"id":1,"data":"40 bytes: {"00" * 32}…"}}',
    ]
    assert lines_of(prompt, "D2") == ['row deleted| t 2, "b"', 'was| {"id":2,"data":"1 bytes: 01"}']
    assert lines_of(prompt, "D3") == [
        'row changed| t 3, "1 bytes: 6b"',
        'was| {"n":1}',
        'is| {"n":1.0}',
    ]


def test_no_rows() -> None:
    """That no row differs is shown, and so is that it is not known."""
    prompt = ask(made_case(changes=()))
    assert lines_of(prompt, "D") == ["no row differs| "]
    unknown = "it is not known which rows differ beside those shown| "
    prompt = ask(made_case(state=None))
    assert lines_of(prompt, "D") == [unknown]
    assert lines_of(prompt, "D1")[0] == "row changed| orders 7"


def test_what_no_log_can_hold() -> None:
    """Numbers beyond 64 bits and half surrogate pairs in arguments are shown as in the log."""
    call = CallFact("get_order", {"order_id": 2**70, "x": "\ud800"}, "", None, ())
    prompt = ask(made_case(turns=(Turn("", (call,)),)))
    assert lines_of(prompt, "S1")[0] == f'call| get_order {{"order_id":"{2**70}","x":"?"}}'


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None)
@given(CASES, st.sampled_from(MODES), st.integers(0, 4000))
def test_any_case_fits_any_budget(case: Case, mode: Mode, more: int) -> None:
    """Whatever is in a case, the prompt is within its budget, deterministic, has the most important
    items, names the id of every item that it shows, and states what was cut."""
    budget = LEAST[mode] + more
    prompt = ask(case, mode, budget)
    system, user = prompt.messages
    assert prompt.num_tokens == ByteCounter()(system.content) + ByteCounter()(user.content)
    assert prompt.num_tokens <= budget
    assert ask(case, mode, budget) == prompt
    sections = parse_sections(user.content)
    ids = [quote.evidence_id for section in sections for quote in section.quotes]
    assert tuple(dict.fromkeys(ids)) == prompt.evidence_ids
    assert {"T", "E", "A"} <= set(ids)
    numbers = [int(one[1:]) for one in ids if one[0] == "S"]
    assert numbers == sorted(numbers)
    assert all(f"\n- {cut}\n" in user.content for cut in prompt.omissions)
    assert bool(prompt.omissions) == ("\n\nNot everything is shown:\n" in user.content)
    if mode == "llm":
        assert {one[0] for one in ids} <= set("TPSBEAM")


@pytest.mark.slow
@settings(max_examples=examples(20), deadline=None)
@given(CASES)
def test_with_room_every_text_is_whole(case: Case) -> None:
    """Where the budget is large, nothing is cut, and every text can be restored."""
    prompt = ask(case, "hybrid", 2_000_000)
    assert prompt.omissions == ()
    evidence = case.evidence
    assert lines_of(prompt, "T")[-1] == (
        f"task| {evidence.instruction}" if evidence.instruction else lines_of(prompt, "T")[-1]
    )
    assert lines_of(prompt, "A")[0].partition("| ")[2] == evidence.answer
    calls = [
        line
        for index, turn in enumerate(evidence.turns, 1)
        for line in lines_of(prompt, f"S{index}")[-2 * len(turn.calls) :][1::2]
        if turn.calls
    ]
    texts = [call.text for turn in evidence.turns for call in turn.calls]
    assert [line.partition("| ")[2] for line in calls] == texts
    findings = [lines_of(prompt, f"F{n}") for n in range(1, len(evidence.findings) + 1)]
    assert [[line.partition("| ")[2] for line in lines] for lines in findings] == [
        [f"{one.name}: {one.expected}" if one.expected else one.name]
        if one.passed and not one.name.endswith(OPEN)
        else [one.name, one.expected, one.found]
        for one in evidence.findings
    ]


def test_too_small_a_budget() -> None:
    """A budget that is too small for some case is refused, with the smallest that is enough."""
    least = LEAST["hybrid"]
    ask(made_case(), "hybrid", least)
    with pytest.raises(JudgeError) as caught:
        ask(made_case(), "hybrid", least - 1)
    assert str(caught.value) == (
        f"evidence_tokens: {least - 1:,} are too few: with rubric 'awm' in mode hybrid a question"
        f" needs at least {least:,}"
    )


def long_case() -> Case:
    """40 steps: reads of 4,000 characters, with a refusal and a write in between."""
    text = '{"order": "open"}' * 235
    read = Turn(
        "<think>Hm.</think>I go on.", (CallFact("get_order", {"order_id": 1}, text, None, ()),)
    )
    refused = Turn("", (CallFact("void_order", {"order_id": 9}, "too late", "refused", ()),))
    turns = (*[read] * 9, refused, *[read] * 9, WROTE, *[read] * 19, ANSWERED)
    return made_case(turns=turns)


def test_what_matters_most_stays() -> None:
    """Under a tight budget the earliest reads and the thoughts are left out first; findings, rows,
    failed and writing calls stay whole, and the omissions are listed."""
    prompt = ask(long_case(), "hybrid", LEAST["hybrid"] + 500)
    whole = ask(long_case(), "hybrid", 100_000)
    for evidence_id in ("T", "P", "E", "A", "D1", "F1", "F2", "F3", "S10", "S20"):
        assert lines_of(prompt, evidence_id) == lines_of(whole, evidence_id)
    assert prompt.omissions == (
        "left out: 31 of 35 successful calls (S1 to S9, S11 to S19, S21 to S33)",
        "left out: 12 of 37 sayings of the agent (S1 to S9, S11 to S13)",
        "left out: 25 of 38 thoughts of the agent (S1 to S9, S11 to S19, S21 to S27)",
        "shortened, as marked: texts of S34 to S39",
    )
    assert whole.omissions == ()


@pytest.mark.parametrize("name", INJECTIONS)
@pytest.mark.parametrize("mode", MODES)
def test_injections_stay_inside(name: str, mode: Mode) -> None:
    """Text of an agent or a tool adds no evidence item, no section and no line of the prompt
    itself."""
    plain, injected = (ask(case, mode) for case in (made_case(), INJECTIONS[name](made_case())))
    assert injected.evidence_ids == plain.evidence_ids
    assert injected.messages[0] == plain.messages[0]

    def frame(prompt: Prompt) -> list[tuple[str, list[tuple[str, str]]]]:
        return [
            (section.title, [(quote.evidence_id, quote.about) for quote in section.quotes])
            for section in parse_sections(prompt.messages[1].content)
        ]

    assert frame(injected) == frame(plain)
    assert injected != plain


@pytest.mark.parametrize("name", REWORDINGS)
def test_rewordings_are_shown(name: str) -> None:
    """Each rewording changes the prompt of a case that has something to reword."""
    case = made_case(answer='It\'s "done".', turns=(LOOKED, WROTE, Turn('It\'s "done".', ())))
    assert ask(REWORDINGS[name](case)) != ask(case)


def test_members_of_a_group_share_a_prefix() -> None:
    """Two episodes of one task have equal bytes up to the first step, for servers with a prefix
    cache."""
    one, other = (ask(made_case(turns=(turn, ANSWERED))) for turn in (LOOKED, WROTE))
    assert one.messages[0] == other.messages[0]
    begins = [prompt.messages[1].content.partition("S1 ")[0] for prompt in (one, other)]
    first, second = (text.rpartition("----- begin ")[0] for text in begins)
    assert first == second
    assert "Void nothing twice" in first


def test_ranges() -> None:
    """Ids of evidence items in words."""
    assert ranges(["T"]) == "T"
    assert ranges(["T", "S1", "S2", "S3", "S7", "S8"]) == "T, S1 to S3, S7, S8"
    assert ranges(["S1", "D2", "F", "F1"]) == "S1, D2, F, F1"
    assert ranges([f"S{number}" for number in range(1, 20, 2)]) == "S1, S3, S5, S7, 6 more"


def test_rendering_has_a_number() -> None:
    """The prompt of one case has the digest of this number: a change needs another number."""
    info = ScenarioInfo(INFO.rules, "", "")
    cases = [made_case(idle=("orders 7 updated",)), made_case(info=info), long_case()]
    prompts = [ask(case, mode, 6000) for case in cases for mode in MODES]
    parts = [
        (*[message.content.removeprefix(RUBRIC.instructions(mode)) for message in prompt.messages],)
        for prompt, mode in zip(prompts, MODES * len(cases), strict=True)
    ]
    digest = blake2b(msgspec.json.encode(parts), digest_size=8).hexdigest()
    assert {RENDERING: digest} == RENDERED
