"""Every staged episode of a world, judged and diagnosed: how often each kind of mutant is named as
what it is. `python -m tests.judge.failures.staged shop_support …` prints the table."""

import sys
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.harness.core.events import Label
from rehearsal_room.harness.core.mistakes import FailureKind
from rehearsal_room.harness.policies.mutations import is_id
from rehearsal_room.judge.code.code_judge import CodeJudge
from rehearsal_room.judge.code.runners import InProcessRunner
from rehearsal_room.judge.failures.calls import enumerated_arguments
from rehearsal_room.judge.failures.diagnose import Mistake, diagnose
from rehearsal_room.judge.failures.reference import Reference, reference_of, tables_in
from rehearsal_room.judge.playback.playback import play
from rehearsal_room.judge.testkit.endings import StagedEpisode
from rehearsal_room.judge.testkit.staged_episodes import stage_episodes
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.format import Scenario

# What each kind of mutant is. One with two ids exchanged may be either: two amounts in the wrong
# rows are two rows with wrong amounts.
NAMES = {
    "dropped": {FailureKind.MISSING_WRITE},
    "repeated": {FailureKind.DUPLICATE_WRITE},
    "swapped": {FailureKind.WRONG_RECORD, FailureKind.WRONG_VALUE},
    "added": {FailureKind.UNASKED_CHANGE},
    "answered": {FailureKind.WRONG_ANSWER, FailureKind.MISSING_REFUSAL},
    "changed id": {FailureKind.WRONG_RECORD},
    "changed value": {FailureKind.WRONG_VALUE},
}


class Staged(NamedTuple):
    """One staged episode with what was found."""

    task: str
    one: StagedEpisode
    label: Label | None
    mistakes: list[Mistake]

    @property
    def mutation(self) -> str:
        """A key of NAMES; empty for an episode that is not a mutant's."""
        if self.one.kind != "mutant":
            return ""
        kind = self.one.what.split()[-1]
        if kind != "changed":
            return kind
        path = self.one.why.split(": ", 2)[2].split(" ")[0]
        name = next(part for part in reversed(path.split(".")) if not part.isdigit())
        return "changed id" if is_id(name) else "changed value"


def references_of(scenario: Scenario, world: HostedScenario) -> dict[str, Reference]:
    """The reference of each task."""
    tables = tables_in(b"".join(world.template.pages))
    known = enumerated_arguments(world.tools)
    return {
        task.id: reference_of(
            task, play(world, task, task.oracle, task.answer).results, tables, known
        )
        for task in scenario.tasks
    }


def diagnosed(name: str, seed: int = 13, *, every: int = 1) -> Iterator[Staged]:
    """Every staged episode of a world, or those of every second, third and so on of its tasks."""
    scenario = find(name)
    scenario = msgspec.structs.replace(scenario, tasks=scenario.tasks[::every])
    world = HostedScenario(scenario)
    try:
        judge = CodeJudge(scenario, InProcessRunner(world))
        references = references_of(scenario, world)
        for task, one in stage_episodes(scenario, world, seed=seed):
            verdict = judge.verdict_at_once(one.trajectory)
            found = diagnose(one.trajectory, verdict, references[task.id])
            yield Staged(task.id, one, verdict.label, found)
    finally:
        world.close()


def named(episodes: list[Staged]) -> tuple[Counter[str], Counter[str]]:
    """How many failed mutants there are of each kind, and how many are named as what they are."""
    total, right = Counter[str](), Counter[str]()
    for one in episodes:
        if one.mutation and one.label is not Label.COMPLETED:
            total[one.mutation] += 1
            right[one.mutation] += not NAMES[one.mutation].isdisjoint(
                found.kind for found in one.mistakes
            )
    return total, right


def main() -> None:
    """Print the table of the worlds that the command line names."""
    total, right = Counter[str](), Counter[str]()
    without = oracles = 0
    for name in sys.argv[1:]:
        episodes = list(diagnosed(name))
        counts = named(episodes)
        total += counts[0]
        right += counts[1]
        without += sum(not one.mistakes and one.label is not Label.COMPLETED for one in episodes)
        oracles += sum(bool(one.mistakes) and one.one.kind == "oracle" for one in episodes)
    for kind in NAMES:
        sys.stdout.write(f"{kind}: {right[kind]:,} of {total[kind]:,} named as what they are\n")
    last = f"failed episodes without a kind: {without}; solutions with a kind: {oracles}\n"
    sys.stdout.write(last)


if __name__ == "__main__":
    main()
