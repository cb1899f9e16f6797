"""One line for each run and each episode, as the lists show them."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rehearsal_room.harness.core.errors import HarnessError, LogError, SettingsError
from rehearsal_room.harness.core.events import EpisodeStarted
from rehearsal_room.harness.log.reader import LogReader
from rehearsal_room.harness.log.schema import NO_SCORE
from rehearsal_room.harness.outcomes.intervals import Interval
from rehearsal_room.harness.outcomes.scores import SCORE_SQL, SHARE_SQL, Tally
from rehearsal_room.harness.outcomes.units import choose_unit
from rehearsal_room.viewer.index.hand_labels import NO_LABELS, HandLabel, HandLabels
from rehearsal_room.viewer.index.tables import COLUMNS
from rehearsal_room.viewer.reading.open_runs import RunKind, ShownRun
from rehearsal_room.viewer.reading.shares import completed_share

LINE_COLUMNS = ", ".join(COLUMNS)


class TokenTotals(msgspec.Struct, frozen=True):
    """Tokens of the policy's model."""

    prompt: int = 0
    cached: int = 0  # the part of `prompt` that came from a prefix cache
    completion: int = 0


class Part(msgspec.Struct, frozen=True):
    """Of a file with a part of a run: which episodes it has."""

    episodes: int
    of: int  # episodes of the whole run
    filter: str  # as in an address; empty: none
    left_out: int = 0  # episodes that the filter finds, and that are not in the file


class RunLine(msgspec.Struct, frozen=True):
    """A run in the list of runs."""

    id: str
    name: str
    folder: str
    kind: RunKind
    status: str  # live, reading (its log), finished, cut off, gone; empty: it cannot be read
    scenarios: Sequence[str] = ()
    policy: str = ""
    model: str = ""
    dialect: str = ""
    history: str = ""
    started_at: float | None = None
    seconds: float | None = None
    episodes: int = 0
    planned: int = 0  # 0: not known
    ended: int = 0
    judged: int = 0
    unjudged: int = 0
    failed_worlds: int = 0
    completed: Interval[float] | None = None
    about: str = ""  # what that interval is about: its unit
    without_verdict: int = 0  # episodes that say nothing about the agent (harness.outcomes.scores)
    bounds: tuple[float, float] = (0.0, 1.0)  # of `completed`, whatever those had been
    mean_reward: float | None = None
    mean_share: float | None = None  # of the tasks that have one; None: no verdict has one
    cost_usd: float | None = None  # of judging; None: no model was asked, or a price is unknown
    tokens: TokenTotals = TokenTotals()
    steps: int = 0
    folded: float = 1.0  # share of the log that is in the index
    error: str | None = None  # why the run cannot be read
    part: Part | None = None  # of an exported file; None: it has the whole run


class EpisodeTableLine(msgspec.Struct, frozen=True):
    """An episode in the table of episodes."""

    episode: str
    attempt: int
    scenario: str
    task: str
    group: str
    member: int
    seed: int
    ending: str | None  # None: live, or cut off
    label: str | None
    reward: float | None
    share: float | None  # of the task; None: it is all or nothing, or not judged
    turns: int
    calls: int
    errors: int
    causes: Sequence[str]
    kinds: Sequence[str]  # of failure, as `rehearse failures` has them
    tools: Sequence[str]
    changed: Sequence[str]
    seconds: float
    policy_s: float
    calls_s: float
    tokens: TokenTotals
    cost_usd: float | None
    tags: Sequence[str]
    judge: str | None
    unjudged: str | None
    error: str | None
    started_at: float
    first_error_turn: int | None
    start_digest: str
    end_digest: str
    forked_from: Mapping[str, Any] | None
    kept: int
    mistake_turn: int | None  # of the first mistake; None: there is none
    is_diagnosed: bool  # False: its mistakes are still to be found
    broken_guards: int  # rules that the agent broke
    by_hand: Sequence[HandLabel] = ()  # labels and notes by people, that of the user first


def episode_line(
    row: Sequence[Any], names: Mapping[int, Sequence[str]], labels: HandLabels = NO_LABELS
) -> EpisodeTableLine:
    """The line of a row of the index, with the sets of names by their ids."""
    one = dict(zip(COLUMNS, row, strict=True))
    forked = one["forked_from"]
    is_over = one["ending"] is not None
    return EpisodeTableLine(
        episode=one["episode"],
        attempt=one["attempt"],
        scenario=one["scenario"],
        task=one["task"],
        group=one["grp"],
        member=one["member"],
        seed=one["seed"],
        ending=one["ending"],
        label=one["label"],
        reward=one["reward"],
        share=one["share"],
        turns=one["turns"],
        calls=one["calls"],
        errors=one["errors"],
        causes=names[one["causes"]],
        kinds=names[one["kinds"]],
        tools=names[one["tools"]],
        changed=names[one["changed"]],
        seconds=one["seconds"] if is_over else one["last_at"] - one["started_at"],
        policy_s=one["policy_s"],
        calls_s=one["calls_s"],
        tokens=TokenTotals(one["prompt_tokens"], one["cached_tokens"], one["completion_tokens"]),
        cost_usd=one["cost_usd"],
        tags=names[one["tags"]],
        judge=one["judge"],
        unjudged=one["unjudged"] if one["judge"] else None,
        error=one["error"],
        started_at=one["started_at"],
        first_error_turn=one["first_error_turn"],
        start_digest=one["start_digest"],
        end_digest=one["end_digest"],
        forked_from=None if forked is None else msgspec.json.decode(forked),
        kept=one["kept"],
        mistake_turn=one["mistake_turn"],
        is_diagnosed=bool(one["is_diagnosed"]),
        broken_guards=one["broken_guards"],
        by_hand=labels.by_episode.get(one["episode"], ()),
    )


MEAN_SHARE = f"CASE WHEN count(share) THEN avg({SHARE_SQL}) END"
_TOTALS = f"""SELECT count(*), count(ending), count(label),
    sum(judge IS NOT NULL AND label IS NULL), sum(label = 'environment_error'), min(started_at),
    max(last_at), avg(reward), sum(requests), sum(cost_usd),
    sum(requests > 0 AND cost_usd IS NULL), sum(prompt_tokens), sum(cached_tokens),
    sum(completion_tokens), sum(turns), {MEAN_SHARE} FROM episodes"""  # nosec B608 # a constant
# Of each task: completed, with a verdict, and over.
_BY_TASK = f"""SELECT scenario, task, coalesce(sum({SCORE_SQL}), 0), count({SCORE_SQL}), count(*)
    FROM episodes WHERE ending IS NOT NULL AND unjudged IS NOT '{NO_SCORE}'
    GROUP BY scenario, task"""  # nosec B608 # a constant


def run_line(run: ShownRun) -> RunLine:
    """The line of a run, from what is folded so far; one with an error where it cannot be read."""
    is_gone = run.is_gone()
    try:
        if is_gone and not run.is_open:
            raise LogError("the folder was deleted or moved")
        line = _run_line(run)
        return msgspec.structs.replace(line, status="gone") if is_gone else line
    except HarnessError as exc:
        if is_gone:
            return RunLine(
                run.id, run.folder.name, str(run.folder), run.kind, status="gone", error=str(exc)
            )
        if run.kind == "training" and isinstance(exc, SettingsError):  # it learned from logs
            status = "finished" if (run.folder / "report.json").is_file() else "cut off"
            return RunLine(run.id, run.folder.name, str(run.folder), run.kind, status=status)
        status = "live" if run.is_live() else ""
        return RunLine(
            run.id, run.folder.name, str(run.folder), run.kind, status=status, error=str(exc)
        )


def _first_started(reader: LogReader) -> EpisodeStarted | None:
    """How the first episode of a log began; None: not yet."""
    for _, record in reader.records_after(0, 1):
        if isinstance(record.event, EpisodeStarted):
            return record.event
    return None


def _run_line(run: ShownRun) -> RunLine:
    index = run.index()
    ((total, *sums),) = index.rows(_TOTALS)
    ended, judged, unjudged, failed, first, last, reward, requests, cost, unpriced, *rest, share = (
        sums
    )
    prompt, cached, completion, steps = (int(one or 0) for one in rest)
    by_task = index.rows(_BY_TASK)
    settings = run.settings()
    counts = [sum(column) for column in zip(*(row[2:] for row in by_task), strict=True)]
    counted = Tally(counts[2], counts[1], int(counts[0])) if counts else Tally(0, 0, 0)
    unit = choose_unit(((scenario, task) for scenario, task, *_ in by_task), settings.unit)
    is_live = run.is_live()
    is_reported = not is_live and ended == total and run.is_reported(total)
    with run.reading() as reader:
        length = reader.num_records()
        imported = None if run.has_settings() else _first_started(reader)
    is_behind = index.position < length and (not index.was_at_end or run.was_written_lately())
    planned = total if is_reported else run.num_planned()
    is_whole = ended >= planned if planned else ended == total
    over = "reading" if is_behind else "finished" if is_whole else "cut off"
    return RunLine(
        run.id,
        run.folder.name,
        str(run.folder),
        run.kind,
        status="live" if is_live else over,
        scenarios=settings.scenarios or tuple(sorted({str(row[0]) for row in by_task})),
        policy=settings.policy.name if imported is None else imported.policy,
        model=settings.model.name,
        dialect=settings.dialect if imported is None else imported.dialect,
        history=settings.history if imported is None else imported.history,
        started_at=first,
        seconds=None if first is None else last - first,
        episodes=total,
        planned=planned,
        ended=ended,
        judged=judged,
        unjudged=int(unjudged or 0),
        failed_worlds=int(failed or 0),
        completed=completed_share(
            {(s, t): (int(hits), n) for s, t, hits, n, _ in by_task if n}, unit.unit
        ),
        about=unit.about,
        without_verdict=counted.without,
        bounds=counted.bounds,
        mean_reward=reward,
        mean_share=share,
        cost_usd=cost if requests and not unpriced else None,
        tokens=TokenTotals(prompt, cached, completion),
        steps=steps,
        folded=1.0 if not length else min(1.0, index.position / length),
    )
