"""A small log of a real world: the tasks of the library, played in a hosted scenario."""

from pathlib import Path

from rehearsal_room.envpool.inprocess.world import HostedScenario
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
from rehearsal_room.harness.log.writer import open_log
from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.format import Scenario, Task, read
from tests.support.paths import LIBRARY


def snapshot_of(world: HostedScenario) -> ScenarioSnapshot:
    scenario = world.scenario
    return ScenarioSnapshot(
        scenario_digest=scenario.digest,
        scenario=scenario.name,
        version=scenario.version,
        template=world.template.digest,
        image=world.template.image,
        rules=scenario.rules,
        user=f"{scenario.user.name} ({scenario.user.role})",
        now=scenario.clock,
        tools=world.tools,
    )


def play_oracle(
    world: HostedScenario, task: Task, *, label: Label
) -> tuple[list[Event], dict[str, list[Row]]]:
    """The facts of an episode that makes the oracle's calls, and its final tables."""
    lease = world.lease()
    events: list[Event] = [_start(world.scenario, task, lease.start_digest)]
    for turn, call in enumerate(task.oracle):
        made = AgentCall(call.name, call.arguments, f"c{turn}-0")
        result = lease.call(call.name, call.arguments, made.id)
        events.append(StepTaken(Reply("", (made,)), Act((made,)), (result,)))
    events.append(StepTaken(Reply(task.answer), Answer(task.answer)))
    num_steps = len(events) - 1
    events.append(EpisodeEnded(Ending.ANSWERED, task.answer, num_steps, lease.state()))
    reward = 1.0 if label is Label.COMPLETED else 0.0
    events.append(Judged("code", label, reward, (reward,) * num_steps))
    return events, world.dump(lease.overlay)


def _start(scenario: Scenario, task: Task, digest: str) -> EpisodeStarted:
    return EpisodeStarted(
        scenario=scenario.name,
        task=task.id,
        instruction=task.instruction,
        group=f"{scenario.name}/{task.id}",
        member=0,
        group_size=1,
        seed=3,
        policy="oracle",
        dialect="native",
        history="full",
        fingerprint="f" * 16,
        scenario_digest=scenario.digest,
        start_digest=digest,
    )


async def write_shelf(folder: Path) -> dict[str, dict[str, list[Row]]]:
    """Play every task of the library and log it; return the final tables by episode.

    Every third episode has the label of an agent's error. The last episode is cut off.
    """
    world = HostedScenario(read(LIBRARY))
    dumps = {}
    async with open_log(folder) as log:
        log.add_scenario(snapshot_of(world))
        for number, task in enumerate(world.scenario.tasks):
            label = Label.AGENT_ERROR if number % 3 == 2 else Label.COMPLETED
            events, dumps[task.id] = play_oracle(world, task, label=label)
            for seq, event in enumerate(events):
                log.append(Record(task.id, 0, seq, 0.0, event))
        for seq, event in enumerate(events[:2]):
            log.append(Record("cut-off", 0, seq, 0.0, event))
    world.close()
    return dumps
