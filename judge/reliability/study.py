"""The reliability study: the same episodes are judged several times, and with perturbations.

Promises:
- A judging without a label is a missing value that is counted, never a label.
- Every episode is judged once before any is judged twice, and perturbations come last. So an
  exhausted budget leaves a study of all episodes, with fewer judgings of each.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

import anyio
import anyio.to_thread
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream

from rehearsal_room.harness.core.events import Judged, Label
from rehearsal_room.harness.core.mistakes import Diagnosis
from rehearsal_room.harness.outcomes.bootstrap import RESAMPLES
from rehearsal_room.judge.core.case import Case
from rehearsal_room.judge.reliability.metrics import EpisodeVerdicts, StudyScope, report_of
from rehearsal_room.judge.reliability.types import StudyReport

# A fresh verdict on a case: nothing comes from a cache. The number distinguishes the repeats of one
# case, as a seed does.
Judging = Callable[[Case, int], Awaitable[Judged]]
Rewording = Callable[[Case], Case]

_NONE: Mapping[str, Rewording] = {}


class _Question(msgspec.Struct, frozen=True):
    """One judging to be made, of a case or of its perturbed version."""

    index: int  # of the case
    repeat: int
    rewording: Rewording | None = None  # None: unchanged
    key: str = ""


async def study(
    cases: Sequence[Case],
    judging: Judging,
    *,
    repeats: int = 5,
    concurrency: int = 16,
    rewordings: Mapping[str, Rewording] = _NONE,
    injections: Mapping[str, Rewording] = _NONE,
    humans: Mapping[str, Mapping[str, Label]] | None = None,
    diagnoses: Mapping[str, Diagnosis] | None = None,
    left_out: Sequence[Judged] = (),
    seed: int = 0,
    num_resamples: int = RESAMPLES,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> StudyReport:
    """Measure how far the judge agrees with itself, with code and with people.

    Every case is judged `repeats` times unchanged, and once with each rewording and injection that
    changes it, as repeat 0. `humans` are labels by episode and labeller, `diagnoses` what
    went wrong by episode. `left_out` are the verdicts on episodes of which no case could be made.
    `seed` is for the intervals. `progress` is called with the number of judgings done and their
    total. Exceptions of `judging` are raised, in a group.
    """
    began = anyio.current_time()
    questions = [_Question(i, repeat) for repeat in range(repeats) for i in range(len(cases))]
    for kind, wordings in (("r", rewordings), ("i", injections)):
        for name, rewording in wordings.items():
            questions += [_Question(i, 0, rewording, kind + name) for i in range(len(cases))]
    given = await _judge_all(questions, cases, judging, concurrency, progress)
    answers = [
        EpisodeVerdicts(
            case,
            tuple(given[i, repeat, ""] for repeat in range(repeats)),
            {name: given[i, 0, "r" + name] for name in rewordings if (i, 0, "r" + name) in given},
            {name: given[i, 0, "i" + name] for name in injections if (i, 0, "i" + name) in given},
        )
        for i, case in enumerate(cases)
    ]
    scope = StudyScope(
        repeats,
        tuple(rewordings),
        tuple(injections),
        humans,
        left_out,
        seed,
        num_resamples,
        diagnoses or {},
    )
    seconds = anyio.current_time() - began
    return await anyio.to_thread.run_sync(partial(report_of, answers, scope, seconds=seconds))


async def _judge_all(
    questions: Sequence[_Question],
    cases: Sequence[Case],
    judging: Judging,
    concurrency: int,
    progress: Callable[[int, int], None],
) -> dict[tuple[int, int, str], Judged]:
    """The verdicts by case, repeat and key; none where a perturbation changes nothing."""
    given: dict[tuple[int, int, str], Judged] = {}
    done = 0

    async def work(stream: MemoryObjectReceiveStream[_Question]) -> None:
        nonlocal done
        async with stream:
            async for question in stream:
                case = cases[question.index]
                shown = case if question.rewording is None else question.rewording(case)
                if question.rewording is None or shown != case:
                    key = (question.index, question.repeat, question.key)
                    given[key] = await judging(shown, question.repeat)
                done += 1
                progress(done, len(questions))

    send, receive = anyio.create_memory_object_stream[_Question]()
    async with anyio.create_task_group() as tasks, send:
        with receive:
            for _ in range(min(concurrency, len(questions))):
                tasks.start_soon(work, receive.clone())
        for question in questions:
            await send.send(question)
    return given
