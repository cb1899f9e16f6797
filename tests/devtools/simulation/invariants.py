"""What must be true of a simulated run, whatever happened to it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise

from rehearsal_room.harness.core.events import (
    EpisodeEnded,
    EpisodeStarted,
    Judged,
    Record,
    StepTaken,
    kind_of,
)
from rehearsal_room.harness.core.messages import Act
from tests.devtools.simulation.follower import KINDS, FollowedRun
from tests.devtools.simulation.simulated_run import Outcome, Subject, simulate

Result = tuple[object, ...]  # of an episode: its ending, answer, digest of its last call, label
_REPEATED = ("policy_error", "cancelled")  # endings after which an episode is played again


def faults_of(outcome: Outcome, subject: Subject) -> list[str]:
    """Every invariant that does not hold, as a sentence each."""
    attempts = _attempts(outcome.records)
    faults = [*outcome.ledger.faults, *_order_faults(outcome.records)]
    for (episode, attempt), records in attempts.items():
        faults += _attempt_faults(f"{episode} attempt {attempt}", records)
    for episode in sorted({episode for episode, _ in attempts}):
        faults += _episode_faults(episode, _of_episode(attempts, episode))
    faults += _shown_faults(outcome)
    if outcome.followed is not None:
        faults += _followed_faults(outcome.followed, outcome.records)
    found, wanted = results_of(outcome.records), undisturbed(subject)
    if outcome.trained != _undisturbed(subject).trained:
        faults.append("the learner's batches are not those of the undisturbed run")
    for episode in sorted(wanted.keys() | found.keys()):
        if found.get(episode) != wanted.get(episode):
            faults.append(f"{episode}: {found.get(episode)}, undisturbed {wanted.get(episode)}")
    if outcome.pool_leases:
        faults.append(f"{outcome.pool_leases} worlds are still leased")
    return faults


@cache
def _undisturbed(subject: Subject) -> Outcome:
    return simulate(0, subject, allowed=())


@cache
def undisturbed(subject: Subject) -> dict[str, Result]:
    """The results of the run in which nothing unusual happens."""
    return results_of(_undisturbed(subject).records)


def results_of(records: Sequence[Record]) -> dict[str, Result]:
    """The result of each episode's last attempt."""
    found: dict[str, Result] = {}
    digests: dict[str, str] = {}
    endings: dict[str, EpisodeEnded] = {}
    for record in records:
        event = record.event
        if isinstance(event, EpisodeStarted):
            digests[record.episode] = event.start_digest
        elif isinstance(event, StepTaken) and event.results:
            digests[record.episode] = event.results[-1].digest
        elif isinstance(event, EpisodeEnded):
            endings[record.episode] = event
        elif isinstance(event, Judged):
            ended = endings[record.episode]
            state = None if ended.state is None else ended.state.digest
            found[record.episode] = (
                *(str(ended.ending), ended.answer, ended.num_steps, state),
                *(digests[record.episode], str(event.label), event.reward),
            )
    return found


def _attempts(records: Sequence[Record]) -> dict[tuple[str, int], list[Record]]:
    found: dict[tuple[str, int], list[Record]] = defaultdict(list)
    for record in records:
        if record.episode.startswith("e"):
            found[record.episode, record.attempt].append(record)
    return found


def _of_episode(
    attempts: Mapping[tuple[str, int], list[Record]], episode: str
) -> list[list[Record]]:
    numbers = sorted(attempt for name, attempt in attempts if name == episode)
    return [attempts[episode, number] for number in numbers]


def _order_faults(records: Sequence[Record]) -> list[str]:
    keys = [(record.episode, record.attempt, record.seq) for record in records]
    return [] if len(set(keys)) == len(keys) else ["a key (episode, attempt, seq) is there twice"]


def _attempt_faults(name: str, records: Sequence[Record]) -> list[str]:
    """One attempt: in order from its start, one ending, at most one verdict after it."""
    faults = []
    if [record.seq for record in records] != list(range(len(records))):
        faults.append(f"{name}: its records are {[record.seq for record in records]}")
    kinds = [type(record.event).__name__ for record in records]
    if kinds[0] != "EpisodeStarted" or kinds.count("EpisodeStarted") != 1:
        faults.append(f"{name}: it starts with {kinds[0]}, {kinds.count('EpisodeStarted')} times")
    if kinds.count("EpisodeEnded") > 1 or kinds.count("Judged") > 1:
        faults.append(f"{name}: several endings or verdicts: {kinds}")
    if "Judged" in kinds and kinds[-2:] != ["EpisodeEnded", "Judged"]:
        faults.append(f"{name}: a verdict that does not follow the ending: {kinds}")
    return faults


def _episode_faults(episode: str, attempts: Sequence[Sequence[Record]]) -> list[str]:
    """All attempts at an episode: each goes on where the one before was cut off."""
    faults = []
    known: list[StepTaken] = []  # the steps of the last attempt that had all that it kept
    for number, (before, after) in enumerate(pairwise(attempts), 1):
        ending = next((r.event for r in before if isinstance(r.event, EpisodeEnded)), None)
        if ending is not None and ending.ending not in _REPEATED:
            faults.append(f"{episode}: played again after attempt {number}, which had ended")
        steps = [r.event for r in before if isinstance(r.event, StepTaken)]
        first = before[0].event
        if isinstance(first, EpisodeStarted) and len(steps) >= first.kept:
            known = steps
        steps = known
        started = after[0].event
        if not isinstance(started, EpisodeStarted):
            continue
        is_cut = bool(steps) and _is_unfinished(steps[-1])
        kept = {len(steps), len(steps) - 1} if is_cut else {len(steps)}
        has_all = len(after) > started.kept
        if started.kept not in kept and (ending is None or ending.ending == "cancelled"):
            faults.append(
                f"{episode}: attempt {number + 1} keeps {started.kept} turns of {len(steps)}"
            )
        copies = [r.event for r in after if isinstance(r.event, StepTaken)][: started.kept]
        if has_all and copies != steps[: started.kept]:
            faults.append(f"{episode}: attempt {number + 1} does not begin with the logged turns")
    last = attempts[-1][-1].event
    if not isinstance(last, Judged):
        faults.append(f"{episode}: its last record is {type(last).__name__}, not its verdict")
    return faults


def _is_unfinished(step: StepTaken) -> bool:
    return isinstance(step.decision, Act) and len(step.results) < len(step.reply.calls)


def _shown_faults(outcome: Outcome) -> list[str]:
    logged = {(r.episode, r.attempt, r.seq): r for r in outcome.records}
    return [
        f"{key} was shown and is not in the log"
        for key, record in outcome.ledger.shown.items()
        if logged.get(key) != record
    ]


def _followed_faults(followed: FollowedRun, records: Sequence[Record]) -> list[str]:
    """The follower has each record once, of each kind in the log's order; all of them, unless it
    came when nobody served the log any more."""
    faults = []
    for kind in KINDS:
        found = [one for one in followed.records if kind_of(one.event) == kind]
        wanted = [one for one in records if kind_of(one.event) == kind]
        if followed.is_late:
            wanted = wanted[: len(found)]
        if found != wanted:
            faults.append(f"the follower has {len(found)} records {kind!r} of {len(wanted)}")
    return faults
