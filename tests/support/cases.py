"""Cases made up for the tests of what is shown to models, and texts that try to break out."""

from typing import Any

from hypothesis import strategies as st

from rehearsal_room.envpool.core.types import StoredState
from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.harness.core.events import Ending, EpisodeEnded, Judged, Label
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.judge.code.code_judge import CodeJudge
from rehearsal_room.judge.code.runners import InProcessRunner
from rehearsal_room.judge.core.case import Case
from rehearsal_room.judge.core.evidence import CallFact, Evidence, FormatFault, ScenarioInfo, Turn
from rehearsal_room.judge.core.rewards import AWM, RewardProfile
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.checks import Finding
from tests.support.events import STARTED

STATE = StoredState("t" * 32, {}, 1, "d" * 32)
INFO = ScenarioInfo("- Be kind.\n- Void nothing twice.", "Ada (clerk)", "2026-03-14T09:30:00Z")
VOIDED = RowChange(
    "orders",
    (7,),
    {"id": 7, "status": "open", "note": None},
    {"id": 7, "status": "void", "note": None},
)
FINDINGS = (
    Finding("orders 7 updated", True, "status='void'", "status='void'", "goal"),
    Finding("answer says 7", False, "7", "Done.", "goal"),
    Finding("nothing else changed", True, "no other change", "none", "guard"),
)
LOOKED = Turn(
    "<think>Which order?</think>I look.",
    (CallFact("get_order", {"order_id": 7}, '{"id": 7, "status": "open"}', None, ()),),
)
WROTE = Turn("", (CallFact("void_order", {"order_id": 7}, '{"id": 7}', None, (VOIDED,)),))
ANSWERED = Turn("<think>All done.</think>Done.", ())


def code_judge(world: HostedScenario, profile: RewardProfile = AWM) -> CodeJudge:
    """The code judge of a world in this process."""
    return CodeJudge(world.scenario, InProcessRunner(world), profile)


def made_case(
    *,
    idle: tuple[str, ...] = (),
    verifier: Any = "package",
    state: StoredState | None = STATE,
    **evidence: Any,
) -> Case:
    """The case of an episode that voids order 7, with some of its evidence changed."""
    facts: dict[str, Any] = {
        "instruction": "Please void order 7.",
        "info": INFO,
        "turns": (LOOKED, WROTE, ANSWERED),
        "ending": Ending.ANSWERED,
        "error": None,
        "answer": "Done.",
        "changes": (VOIDED,),
        "findings": FINDINGS,
        "unverified": None,
        "tool_errors": {},
        "format_faults": (),
        "world_failed": False,
        **evidence,
    }
    ended = EpisodeEnded(facts["ending"], facts["answer"], len(facts["turns"]), state)
    code = Judged("code", Label.PARTIALLY_COMPLETED, 0.1, findings=facts["findings"])
    return Case(Trajectory("e1", 1, STARTED, (), ended), Evidence(**facts), idle, code, verifier)


# Texts with which an attacker might try to leave a quoted section, beside arbitrary ones.
TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=()), max_size=60),
    st.lists(
        st.sampled_from(
            [
                *("\n", "\r\n", "\u2028", "| ", "|", " ", "⟨", "⟩", "⟨U+000A⟩", "\ue000", "\u202e"),
                *("----- end ", "----- begin ", "0123456789ab", ": findings -----", "F1 passed"),
                *("goal| ", "S1 result| ", "⟨12 characters left out⟩", "é", "\ud800", "\U000e0041"),
                *("<think>", "</think>", "<tool_call>", "</tool_call>", "{", '"a": [1]', "}"),
                "These were the exhibits.",
            ]
        ),
        max_size=12,
    ).map("".join),
)
_ROWS = st.none() | st.fixed_dictionaries({"id": st.integers(0, 3), "x": TEXTS | st.binary()})
_CALLS = st.builds(
    CallFact,
    name=TEXTS,
    arguments=TEXTS | st.dictionaries(TEXTS, TEXTS | st.integers(), max_size=2),
    text=TEXTS | TEXTS.map(lambda text: text * 200),
    error=st.sampled_from([None, None, "unknown_tool", "arguments", "refused", "timeout"]),
    changes=st.sampled_from([(), (VOIDED,)]),
)
CASES = st.builds(
    made_case,
    instruction=TEXTS | TEXTS.map(lambda text: text * 500),
    info=st.builds(ScenarioInfo, TEXTS | TEXTS.map(lambda text: text * 200), TEXTS, TEXTS),
    turns=st.lists(st.builds(Turn, TEXTS, st.lists(_CALLS, max_size=3).map(tuple)), max_size=8).map(
        lambda turns: tuple(turns) * (1 + len(turns) % 3 * 4)
    ),
    ending=st.sampled_from(Ending),
    error=st.none() | TEXTS | TEXTS.map(lambda text: text * 100),
    answer=TEXTS | TEXTS.map(lambda text: text * 500),
    changes=st.lists(
        st.builds(RowChange, TEXTS, st.tuples(TEXTS | st.integers()), _ROWS, _ROWS), max_size=5
    ).map(lambda changes: tuple(changes) * (1 + len(changes))),
    findings=st.lists(
        st.builds(Finding, TEXTS, st.booleans(), TEXTS, TEXTS, st.sampled_from(["goal", "guard"])),
        max_size=5,
    ).map(lambda findings: tuple(findings) * (1 + len(findings))),
    unverified=st.none() | TEXTS,
    format_faults=st.lists(st.builds(FormatFault, st.integers(0, 7), TEXTS), max_size=2).map(tuple),
    observed=TEXTS,
    verifier=st.sampled_from(["package", "awm", "tool_calls"]),
)
