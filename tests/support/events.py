"""Records of invented episodes, for tests of the bus and its subscribers."""

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
from rehearsal_room.harness.core.messages import Act, AgentCall, Reply

STARTED = EpisodeStarted(
    scenario="ledger",
    task="open",
    instruction="Open an account.",
    group="g0",
    member=0,
    group_size=1,
    seed=7,
    policy="oracle",
    dialect="native",
    history="full",
    fingerprint="f",
    scenario_digest="p",
    start_digest="w",
)


def step(number: int) -> StepTaken:
    """A turn with one call."""
    call = AgentCall("book", {"account_id": 1, "amount": number}, f"c{number}-0")
    return StepTaken(Reply(text="I book it.", calls=(call,)), Act((call,)))


def episode(name: str, num_steps: int, *, ending: Ending = Ending.ANSWERED) -> list[Record]:
    """A whole episode: its start, its steps, its end and a verdict."""
    label = Label.COMPLETED if ending is Ending.ANSWERED else Label.AGENT_ERROR
    events: list[Event] = [
        STARTED,
        *(step(number) for number in range(num_steps)),
        EpisodeEnded(ending, "done", num_steps, None),
        Judged("code", label, 1.0 if label is Label.COMPLETED else 0.0),
    ]
    return [Record(name, 0, seq, 1000.0 + seq, event) for seq, event in enumerate(events)]
