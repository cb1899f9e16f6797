"""Invented episodes, for tests of the log and its readers."""

from collections.abc import Sequence

from rehearsal_room.envpool.core.types import StoredState, ToolResult, ToolSpec
from rehearsal_room.harness.core.events import (
    Ending,
    EpisodeEnded,
    EpisodeStarted,
    Event,
    Judged,
    Label,
    Record,
    StepTaken,
)
from rehearsal_room.harness.core.messages import Act, AgentCall, Answer, Reply
from rehearsal_room.harness.log.schema import ScenarioSnapshot
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.checks import Finding

WORLD = ScenarioSnapshot(
    scenario_digest="p" * 32,
    scenario="shop",
    version="1.0",
    template="t" * 32,
    image=b"SQLite format 3\0",
    rules="# Rules\n\nBe kind.",
    user="Ada (clerk)",
    now="2026-03-14T09:30:00Z",
    tools=(ToolSpec("void_order", "Void one order.", {"type": "object", "properties": {}}),),
)
STATE = StoredState("t" * 32, {1: b"\0one" * 256, 7: b"seven" * 50}, 9, "d" * 32)


def started(task: str = "void-7", group: str = "g0", member: int = 0) -> EpisodeStarted:
    return EpisodeStarted(
        scenario="shop",
        task=task,
        instruction="Please void order 7.",
        group=group,
        member=member,
        group_size=8,
        seed=3,
        policy="oracle",
        dialect="native",
        history="full",
        fingerprint="f" * 16,
        scenario_digest="p" * 32,
        start_digest="w" * 32,
    )


def step(number: int, before: str = "open", after: str = "void") -> StepTaken:
    """One call that moves order 7 from one status to another."""
    call = AgentCall("void_order", {"order_id": 7, "step": number}, f"c{number}-0")
    change = RowChange("orders", (7,), {"id": 7, "status": before}, {"id": 7, "status": after})
    result = ToolResult('{"id": 7}', changes=(change,), digest=f"{number:032}")
    return StepTaken(Reply("I void it.", (call,)), Act((call,)), (result,), policy_s=0.5)


def answer(text: str = "Done: order 7 is void.") -> StepTaken:
    return StepTaken(Reply(text), Answer(text))


def ended(num_steps: int, ending: Ending = Ending.ANSWERED) -> EpisodeEnded:
    text = "Done: order 7 is void." if ending is Ending.ANSWERED else ""
    return EpisodeEnded(ending, text, num_steps, STATE, seconds=1.5)


def judged(label: Label | None = Label.COMPLETED, judge: str = "code") -> Judged:
    finding = Finding("orders 7 updated", True, "status='void'", "status='void'", "goal")
    if label is None:
        return Judged(judge, None, None, unjudged="the model server died")
    reward = 1.0 if label is Label.COMPLETED else 0.0
    return Judged(judge, label, reward, (reward, reward), (finding,), episode_digest="e" * 32)


def story(episode: str, events: Sequence[Event], attempt: int = 0) -> list[Record]:
    """The records of an attempt with these events."""
    return [
        Record(episode, attempt, seq, 1_700_000_000.0 + seq, event)
        for seq, event in enumerate(events)
    ]


def whole(episode: str, label: Label | None = Label.COMPLETED, attempt: int = 0) -> list[Record]:
    """The records of a whole episode: two steps, its end and a verdict."""
    return story(episode, [started(), step(0), answer(), ended(2), judged(label)], attempt)
