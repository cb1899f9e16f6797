"""Staged episodes of the judge test kit: correct and wrong attempts, and worlds that break."""

from collections.abc import Iterable, Iterator, Sequence
from random import Random

from rehearsal_room.envpool.inprocess.fault_injection import FAULTS, FaultInjector, ToolFault
from rehearsal_room.envpool.inprocess.toolset import load
from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.harness.continuation.outcomes import failure_message
from rehearsal_room.harness.core.events import Ending
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.policies.mutations import DONE
from rehearsal_room.judge.playback.attempts import (
    Writes,
    is_equivalent,
    mutants_on,
    unwanted_on,
    writes_of,
)
from rehearsal_room.judge.playback.playback import Played, format_call, play
from rehearsal_room.judge.testkit.endings import (
    AGENT,
    COMPLETED,
    NOT_COMPLETED,
    WORK_DONE,
    WORLD,
    StagedEpisode,
    ended_as,
    idle_episodes,
    interrupted_episodes,
)
from rehearsal_room.scenarios.format import Call, Scenario, Task, Utterance

# SQLite instructions that a call may take in the world that breaks. A call that never ends takes
# that long, about 7 ms.
_FAULTY_STEPS = 1_000_000


def stage_episodes(
    scenario: Scenario, world: HostedScenario, *, seed: int
) -> Iterator[tuple[Task, StagedEpisode]]:
    """Every episode of every task of a package in our format. `world` hosts it."""
    injector = FaultInjector(load(scenario))
    broken = HostedScenario(
        scenario, tools=injector.tools, template=world.template, max_steps=_FAULTY_STEPS
    )
    try:
        player = _Player(world, broken, injector, seed)
        for task in scenario.tasks:
            for one in player.episodes(task):
                yield task, one
    finally:
        broken.close()


class _Player:
    """Plays the tasks of one scenario, in its world and in one that breaks."""

    def __init__(
        self, world: HostedScenario, broken: HostedScenario, injector: FaultInjector, seed: int
    ) -> None:
        self._world = world
        self._broken = broken
        self._injector = injector
        self._seed = seed
        self._oracles = {
            task.id: play(world, task, task.oracle, task.answer) for task in world.scenario.tasks
        }
        self._writes: Writes = writes_of(self._oracles)
        self._refused = _refused_call(world, self._oracles.values(), seed)

    def episodes(self, task: Task) -> Iterator[StagedEpisode]:
        """The episodes of one task; without an oracle, only those without calls."""
        yield from idle_episodes(self._world, task)
        if task.kind == "open" and not task.oracle:
            return
        oracle = self._oracles[task.id]
        why = "its author solves it this way"
        yield StagedEpisode("oracle", "as written", oracle.trajectory, COMPLETED, why)
        yield from self._mutants(task, oracle)
        yield from self._near_misses(task, oracle)
        yield from self._refusals(task)
        yield from self._faults(task, oracle)
        yield from interrupted_episodes(oracle.trajectory)

    def _play(
        self,
        task: Task,
        calls: Sequence[Call],
        answer: str,
        utterances: Sequence[Utterance] | None = None,
    ) -> Played:
        return play(self._world, task, calls, answer, utterances)

    def _mutants(self, task: Task, oracle: Played) -> Iterator[StagedEpisode]:
        mutants, _ = mutants_on(self._world, task, oracle, self._writes, seed=self._seed)
        for number, mutant in enumerate(mutants):
            played = self._play(task, mutant.calls, mutant.answer, mutant.utterances)
            if not is_equivalent(played, oracle):
                why = f"it is the oracle with a mistake: {mutant.note}"
                what = f"{number} {mutant.kind}"
                yield StagedEpisode("mutant", what, played.trajectory, NOT_COMPLETED, why)

    def _near_misses(self, task: Task, oracle: Played) -> Iterator[StagedEpisode]:
        wrote = [index for index, result in enumerate(oracle.results) if result.changes]
        rng = Random(f"{self._seed} {task.id} near")
        if wrote:
            yield from self._left_out(task, oracle, wrote, rng)
        elif task.kind != "decline":
            silent = self._play(task, task.oracle, "")
            why = "a question needs an answer"
            yield StagedEpisode("near_miss", "unanswered", silent.trajectory, NOT_COMPLETED, why)
        for call in unwanted_on(task, oracle, self._writes, rng)[:1]:
            more = self._play(task, (*task.oracle, call), task.answer)
            why = f"the task does not ask for {format_call(call)}"
            yield StagedEpisode("near_miss", "one write more", more.trajectory, NOT_COMPLETED, why)

    def _left_out(
        self, task: Task, oracle: Played, wrote: list[int], rng: Random
    ) -> Iterator[StagedEpisode]:
        calls, last = task.oracle, wrote[-1]
        without = self._play(task, (*calls[:last], *calls[last + 1 :]), task.answer)
        why = f"{format_call(calls[last])} is missing, but the answer says that all is done"
        if not is_equivalent(without, oracle):
            yield StagedEpisode("near_miss", "last write", without.trajectory, NOT_COMPLETED, why)
        reads = [call for index, call in enumerate(calls) if index not in wrote]
        looked = self._play(task, reads, task.answer)
        why = "it was looked up and reported, but not done"
        yield StagedEpisode("near_miss", "only looked", looked.trajectory, NOT_COMPLETED, why)
        for call in unwanted_on(task, without, self._writes, rng)[:1]:
            other = self._play(task, (*calls[:last], call, *calls[last + 1 :]), task.answer)
            why = f"{format_call(call)}, of another task, replaces {format_call(calls[last])}"
            if not is_equivalent(other, oracle):
                yield StagedEpisode(
                    "near_miss", "other write", other.trajectory, NOT_COMPLETED, why
                )
        for what, answer in (("silent", ""), ("vague", DONE)):
            done = self._play(task, calls, answer)
            why = "all is done; the verifier decides whether it must also be reported"
            yield StagedEpisode("unreported", what, done.trajectory, WORK_DONE, why)

    def _refusals(self, task: Task) -> Iterator[StagedEpisode]:
        if self._refused is None:
            return
        call = self._refused
        recovered = self._play(task, (call, *task.oracle), task.answer)
        why = f"{format_call(call)} was refused, which changed nothing, and the task was done"
        yield StagedEpisode("refused", "went on", recovered.trajectory, COMPLETED, why)
        gave_up = self._play(task, (call,), "")
        why = f"{format_call(call)} was refused by a rule of the world, which works as it should"
        yield StagedEpisode("refused", "gave up", gave_up.trajectory, AGENT, why)

    def _faults(self, task: Task, oracle: Played) -> Iterator[StagedEpisode]:
        """Each fault in one of the oracle's calls, where the episode stops; and in its last write,
        where the agent continues and says that all is done."""
        wrote = [index for index, result in enumerate(oracle.results) if result.changes]
        rng = Random(f"{self._seed} {task.id} fault")
        for fault in FAULTS if task.oracle else ():
            index = rng.randrange(len(task.oracle))
            why = f"{format_call(task.oracle[index])} broke the world ({fault})"
            stopped = self._stopped(task, fault, index)
            yield StagedEpisode("world_fault", f"{fault} stopped", stopped, WORLD, why)
            if wrote:
                played = self._broke(task, task.oracle, fault, wrote[-1])
                if not is_equivalent(played, oracle):
                    why = f"{format_call(task.oracle[wrote[-1]])} broke the world ({fault})"
                    yield StagedEpisode(
                        "world_fault", f"{fault} ignored", played.trajectory, WORLD, why
                    )

    def _broke(self, task: Task, calls: Sequence[Call], fault: ToolFault, index: int) -> Played:
        self._injector.schedule(fault, call=index)
        return play(self._broken, task, calls, task.answer)

    def _stopped(self, task: Task, fault: ToolFault, index: int) -> Trajectory:
        calls = task.oracle[: index + 1]
        played = self._broke(task, calls, fault, index)
        error = failure_message(calls[-1].name, played.results[-1])
        return ended_as(played.trajectory, Ending.WORLD_ERROR, error)


def _refused_call(world: HostedScenario, oracles: Iterable[Played], seed: int) -> Call | None:
    """A call that the world refuses in its start state; None where none is found.

    The candidates are the oracles' calls, unchanged or with one value changed: most of these name a
    thing that does not exist.
    """
    played = list(oracles)
    for one in played:
        task = world.scenario.task(one.trajectory.started.task)
        mutants, _ = mutants_on(world, task, one, (), seed=seed)
        for call in (call for calls in (one.calls, *(m.calls for m in mutants)) for call in calls):
            if world.lease().call(call.name, call.arguments).error == "refused":
                return call
    return None
