"""The result of a run, computed from its log, and its summary on a terminal."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.text import Text

from rehearsal_room.harness.chat.prices import Prices
from rehearsal_room.harness.core.events import WITH_ERRORS, Ending
from rehearsal_room.harness.core.mistakes import FailureKind
from rehearsal_room.harness.core.terminal_text import plural, printable
from rehearsal_room.harness.log.reader import LogReader
from rehearsal_room.harness.log.schema import NOTHING_SPENT, EpisodeRow, Spending, write_atomically
from rehearsal_room.harness.outcomes.failure_kinds import Diagnoses, count_kinds, diagnoses_in
from rehearsal_room.harness.outcomes.model_failures import (
    failure_causes,
    first_prompts_line,
    lacks_model,
)
from rehearsal_room.harness.outcomes.model_use import (
    ModelUse,
    ReadModelUse,
    ReplyTimes,
    TokenCount,
    has_model,
    model_use_lines,
    read_model_use,
    sum_of_tokens,
)
from rehearsal_room.harness.outcomes.profile_scores import (
    ProfileScore,
    profile_line,
    profile_score,
)
from rehearsal_room.harness.outcomes.run_statistics import RunStatistics, statistics_lines
from rehearsal_room.harness.outcomes.scores import score_of, tally
from rehearsal_room.harness.reports.bar_chart import bar_chart, most_first
from rehearsal_room.harness.reports.faults import FaultCounts, fault_lines, faults_in
from rehearsal_room.harness.settings.limits import MIN_STEPS

REPORT_NAME = "report.json"
StatisticsOf = Callable[[Sequence[EpisodeRow]], RunStatistics]
_MAX_CAUSES = 3  # of model failures, in the headline


class TaskReport(msgspec.Struct, frozen=True):
    """One task's episodes."""

    scenario: str
    task: str
    episodes: int
    completed: int
    mean_reward: float | None  # of the judged episodes; None: none was judged
    turns: float = 0.0  # mean of an episode
    prompt_tokens: int = 0  # of the model, in all its episodes
    cached_tokens: int = 0  # the part of prompt_tokens that came from the server's prefix cache
    completion_tokens: int = 0
    cost_usd: float | None = None  # of these tokens; None: no model played, or it has no price
    seconds: float | None = None  # mean of an episode; None: left out, as in report.json


class RunReport(msgspec.Struct, frozen=True):
    """The result of `rehearse run`, as `--json` has it. report.json leaves `reply_times` and each
    task's `seconds` out and so contains no times: a run that was resumed after a crash has the same
    one as one without a crash."""

    episodes: int
    steps: int
    pass_rate: float  # completed among the episodes with a verdict (harness.outcomes.scores)
    mean_reward: float | None
    endings: dict[str, int]
    labels: dict[str, int]
    unjudged: int
    tasks: tuple[TaskReport, ...]
    judging: Spending = NOTHING_SPENT  # all of the run's verdicts
    # Judging costs of 1,024 labelled episodes. None: no episode has a label, no model was asked,
    # or a model had no price.
    usd_per_1024_episodes: float | None = None
    model_failures: int = 0  # episodes that ended because the model could not answer
    model_failure_causes: dict[str, int] = {}  # such episodes by cause, the most frequent first
    model_refusals: int = 0  # episodes that ended because the model's provider withheld a reply
    faults: dict[str, FaultCounts] = {}  # on purpose, by their kind; empty: none was injected
    failures: dict[str, int] = {}  # episodes by kind of failure; completed ones with habits, too
    statistics: RunStatistics | None = None  # None: none were computed
    without_verdict: int = 0  # episodes that say nothing about the agent
    # What the pass rate of all episodes can be, whatever those had been.
    pass_bounds: tuple[float, float] = (0.0, 1.0)
    policy: str = ""  # who played, as in `openai:gpt-5`; several where the log has several
    # Maximum number of steps that was set. None: each task's own (see Limits.steps_for), or there
    # was none.
    max_steps: int | None = None
    first_prompts: str = ""  # which worlds the model's context has no room for; empty: none
    profile: ProfileScore | None = None  # None: the run has no profile
    judge: str = ""  # who judged, as in `code`; several where the log has several
    model: ModelUse | None = None  # None: no model played, or it gave no reply
    reply_times: ReplyTimes | None = None  # of that model

    @property
    def lacks_model(self) -> bool:
        """Whether so many episodes failed for want of a model that the run shows nothing."""
        return lacks_model(self.model_failures, self.episodes)


def read_report(
    reader: LogReader,
    statistics_of: StatisticsOf | None = None,
    *,
    max_steps: int | None = None,
    prices: Prices | None = None,
    diagnoses: Diagnoses | None = None,
) -> RunReport:
    """The report on a logged run. `statistics_of` computes its statistics; None: it has none.
    `max_steps` is the limit that was set, `prices` are those of the models (None: they are not
    known). `diagnoses` of all episodes; None: those that the log has. Raises LogError."""
    rows = reader.episodes()
    if diagnoses is None:
        diagnoses = diagnoses_in(rows)
    found = read_priced_use(reader, rows, prices)
    model, times, tokens = (None, None, {}) if found is None else found
    report = report_of(rows, faults_in(reader))
    return msgspec.structs.replace(
        report,
        tasks=tuple(_with_tokens(report.tasks, rows, tokens, prices)),
        failures=count_kinds(diagnoses.values()),
        statistics=None if statistics_of is None else statistics_of(rows),
        max_steps=max_steps,
        model=model,
        reply_times=times,
    )


def priced_use(
    reader: LogReader, rows: Sequence[EpisodeRow], prices: Prices | None
) -> tuple[ModelUse | None, ReplyTimes | None]:
    """What the policy's model took, with its cost where the prices have its model; None: no model
    played, or it gave no reply. Raises LogError."""
    found = read_priced_use(reader, rows, prices)
    return (None, None) if found is None else (found.use, found.times)


def read_priced_use(
    reader: LogReader, rows: Sequence[EpisodeRow], prices: Prices | None
) -> ReadModelUse | None:
    """The same with each episode's tokens; None: no model played, or it gave no reply."""
    found = read_model_use(reader, rows) if has_model(rows) else None
    if found is None:
        return None
    use = found.use
    tokens = TokenCount(use.prompt_tokens, use.cached_tokens, use.completion_tokens)
    cost = cost_of(tokens, model_of(rows), prices)
    return found._replace(use=msgspec.structs.replace(use, cost_usd=cost))


def model_of(rows: Iterable[EpisodeRow]) -> str | None:
    """The model of these episodes; None: there are several."""
    models = {row.policy.partition(":")[2] for row in rows}
    return models.pop() if len(models) == 1 else None


def cost_of(tokens: TokenCount, model: str | None, prices: Prices | None) -> float | None:
    """What a model's tokens cost; None: its price is not known."""
    return None if prices is None or model is None else prices.cost(model, *tokens)


def _with_tokens(
    tasks: Sequence[TaskReport],
    rows: Sequence[EpisodeRow],
    tokens: Mapping[str, TokenCount],
    prices: Prices | None,
) -> Iterator[TaskReport]:
    """The tasks with what the model took at each."""
    by_task: dict[tuple[str, str], list[EpisodeRow]] = {}
    for row in rows:
        by_task.setdefault((row.scenario, row.task), []).append(row)
    model = model_of(rows)
    for task in tasks:
        members = by_task[task.scenario, task.task]
        count = sum_of_tokens(tokens[row.episode] for row in members if row.episode in tokens)
        yield msgspec.structs.replace(
            task,
            prompt_tokens=count.prompt,
            cached_tokens=count.cached,
            completion_tokens=count.completion,
            cost_usd=cost_of(count, model, prices) if tokens else None,
        )


def report_of(
    rows: Sequence[EpisodeRow], faults: Mapping[str, FaultCounts] | None = None
) -> RunReport:
    """The report on a run's episodes, as far as their rows show it; episodes without an end are
    left out. `faults` were injected on purpose (None: none were)."""
    ended = [row for row in rows if row.ending is not None]
    judged = [row for row in ended if row.label is not None]
    counted = tally(ended)
    scores = {row.episode: score_of(row.ending, row.label) for row in ended}
    judging = NOTHING_SPENT
    for row in rows:
        if row.judging.requests:
            judging = judging.plus(row.judging)
    by_task: dict[tuple[str, str], list[EpisodeRow]] = {}
    for row in ended:
        by_task.setdefault((row.scenario, row.task), []).append(row)
    return RunReport(
        episodes=len(ended),
        steps=sum(row.num_steps for row in ended),
        pass_rate=counted.rate or 0.0,
        mean_reward=_mean([row.reward for row in judged]),
        endings=dict(sorted(Counter(str(row.ending) for row in ended).items())),
        labels=dict(sorted(Counter(str(row.label) for row in judged).items())),
        unjudged=sum(row.has_score for row in ended) - len(judged),
        tasks=tuple(
            TaskReport(
                scenario,
                task,
                len(group),
                sum(scores[row.episode] == 1 for row in group),
                _mean([row.reward for row in group]),
                turns=sum(row.num_steps for row in group) / len(group),
                seconds=sum(row.seconds for row in group) / len(group),
            )
            for (scenario, task), group in sorted(by_task.items())
        ),
        judging=judging,
        usd_per_1024_episodes=None
        if judging.cost_usd is None or not judging.requests or not judged
        else judging.cost_usd / len(judged) * 1024,
        model_failures=sum(row.ending is Ending.POLICY_ERROR for row in ended),
        model_failure_causes=failure_causes(ended),
        first_prompts=first_prompts_line(ended),
        model_refusals=sum(row.ending is Ending.MODEL_REFUSED for row in ended),
        faults=dict(faults or {}),
        without_verdict=counted.without,
        pass_bounds=counted.bounds,
        policy=players(rows),
        judge=", ".join(dict.fromkeys(row.judge for row in rows if row.judge)),
        profile=profile_score(row.profile for row in ended),
    )


def players(rows: Iterable[EpisodeRow]) -> str:
    """The policies of the episodes, each with its model.

    Example: "openai:gpt-5"; "oracle"
    """
    return ", ".join(dict.fromkeys(row.policy for row in rows if row.policy))


def played_by(policy: str) -> str:
    """Who played, in a line.

    Example: "oracle" -> "played by oracle (no model)"; "openai:gpt-5" -> "played by openai:gpt-5"
    """
    return f"played by {policy}" if ":" in policy else f"played by {policy} (no model)"


def write_report(folder: Path, report: RunReport) -> None:
    """Write report.json. Raises OSError."""
    data = msgspec.json.encode(without_times(report))
    write_atomically(folder / REPORT_NAME, msgspec.json.format(data))


def without_times(report: RunReport) -> RunReport:
    """The report as report.json has it."""
    tasks = tuple([msgspec.structs.replace(task, seconds=None) for task in report.tasks])
    return msgspec.structs.replace(report, reply_times=None, tasks=tasks)


def _mean(rewards: Sequence[float | None]) -> float | None:
    known = [reward for reward in rewards if reward is not None]
    return sum(known) / len(known) if known else None


def render_run_report(report: RunReport, console: Console) -> None:
    """Print the result of a run in a few lines."""
    console.print(Text(printable(headline(report), one_line=True)), soft_wrap=True)
    if report.policy:
        console.print(Text(printable(played_by(report.policy), one_line=True)), soft_wrap=True)
    if WITH_ERRORS in report.judge:
        console.print(
            f"judged by {report.judge}, planted: no score", style="yellow", soft_wrap=True
        )
    if report.profile is not None:
        console.print(Text(profile_line(report.profile)), soft_wrap=True)
    for line in [] if report.model is None else model_use_lines(report.model, report.reply_times):
        console.print(line, highlight=False, soft_wrap=True)
    if report.first_prompts:
        console.print(Text(printable(report.first_prompts, one_line=True)), soft_wrap=True)
    console.print(bar_chart("endings", most_first(report.endings)))
    console.print(bar_chart("labels", most_first(report.labels)))
    if report.failures:
        console.print(bar_chart("failures", most_first(report.failures)))
    if num_stopped := report.endings.get(Ending.STEP_LIMIT, 0):
        console.print(
            f"{plural(num_stopped, 'episode')} reached the step limit: {_limit_of(report)}",
            highlight=False,
            soft_wrap=True,
        )
    if num_calls := report.failures.get(FailureKind.CALL_AS_TEXT, 0):
        answers = plural(report.endings.get(Ending.ANSWERED, 0), "answer")
        console.print(
            f"{num_calls:,} of {answers} contain a call as text, such as <tool_call>: the model "
            "server has no tool parser that reads what this model writes; start it with another "
            "one, or try --dialect hermes",
            highlight=False,
            soft_wrap=True,
        )
    if report.statistics is not None:
        for line in statistics_lines(report.statistics):
            console.print(line, highlight=False, soft_wrap=True)
    for line in fault_lines(report.faults):
        console.print(f"fault {line}", highlight=False, soft_wrap=True)
    if (spent := report.judging).requests:
        cost = "the cost is not known (see --judge-prices)"
        if spent.cost_usd is not None:
            each = report.usd_per_1024_episodes or 0.0
            cost = f"{spent.cost_usd:.4f} USD ({each:.2f} USD per 1,024 episodes)"
        console.print(
            f"judging took {spent.requests:,} model calls, {spent.prompt_tokens:,} + "
            f"{spent.completion_tokens:,} tokens; {cost}",
            highlight=False,
            soft_wrap=True,
        )


def _limit_of(report: RunReport) -> str:
    if report.max_steps is not None:
        return f"{report.max_steps:,}, as set"
    return f"2.5 times the steps of the task's solution, at least {MIN_STEPS}"


def headline(report: RunReport) -> str:
    """The result in one line. Where the model failed in more than a tenth of the episodes, it has
    no pass rate: that of the others would be taken for the run's.

    Example: "12 episodes, 80 steps, pass rate 0.750, mean reward 0.700, 1 unjudged"
    Example: "4 episodes, 8 steps, pass rate 0.500 (0.250 to 0.750 with the 2 without a verdict),
    mean reward 0.500, 2 unjudged"
    Example: "4 judged of 120; 116 model failures: connection refused"
    Example: "12 episodes, 80 steps, pass rate 0.750, mean reward 0.700, 2 refused by the provider"
    """
    judged = sum(report.labels.values())
    reward = "none" if report.mean_reward is None else f"{report.mean_reward:.3f}"
    result = f"pass rate {report.pass_rate:.3f}{_bounds(report)}, mean reward {reward}"
    other = report.episodes - judged - report.model_failures - report.model_refusals
    unjudged = f", {report.model_refusals:,} refused by the provider" * (report.model_refusals > 0)
    unjudged += f", {other:,} unjudged" * (other > 0)
    if not report.model_failures:
        count = f"{plural(report.episodes, 'episode')}, {plural(report.steps, 'step')}"
        return f"{count}, {result}{unjudged}"
    failures = f"{plural(report.model_failures, 'model failure')}: {_causes_of(report)}"
    text = f"{judged:,} judged of {report.episodes:,}; {failures}"
    if report.lacks_model or not judged:
        return text + unjudged
    return f"{text}; {result} of the judged{unjudged}"


def _bounds(report: RunReport) -> str:
    if not report.without_verdict:
        return ""
    low, high = report.pass_bounds
    return f" ({low:.3f} to {high:.3f} with the {report.without_verdict:,} without a verdict)"


def _causes_of(report: RunReport) -> str:
    causes = list(report.model_failure_causes.items())
    if len(causes) == 1:
        return causes[0][0]
    texts = [f"{cause} ({count:,})" for cause, count in causes[:_MAX_CAUSES]]
    return ", ".join(texts) + (", …" if len(causes) > _MAX_CAUSES else "")
