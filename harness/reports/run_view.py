"""A run on a terminal: its tasks by scenario with the failing ones first, and its episodes.

Every task and every episode is one line, at 80 columns, too; with `full` lines are folded instead
of cut, nothing is left out, and mean steps and seconds are added.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from rehearsal_room.harness.chat.prices import Prices
from rehearsal_room.harness.core.events import Ending, Label
from rehearsal_room.harness.core.terminal_text import plural, printable, shorten
from rehearsal_room.harness.log.reader import LogReader
from rehearsal_room.harness.log.schema import EpisodeRow
from rehearsal_room.harness.outcomes.failure_kinds import Diagnoses, count_kinds, diagnoses_in
from rehearsal_room.harness.outcomes.model_failures import lacks_model
from rehearsal_room.harness.outcomes.model_use import TokenCount, model_use_lines, sum_of_tokens
from rehearsal_room.harness.outcomes.profile_scores import profile_line, profile_score
from rehearsal_room.harness.outcomes.run_statistics import statistics_lines
from rehearsal_room.harness.outcomes.scores import tally
from rehearsal_room.harness.reports.bar_chart import bar_chart
from rehearsal_room.harness.reports.episode_view import LABEL_STYLES
from rehearsal_room.harness.reports.summary import (
    StatisticsOf,
    cost_of,
    model_of,
    played_by,
    players,
    read_priced_use,
)

Sort = Literal["failures", "task", "episode", "steps", "seconds"]
SORTS: tuple[str, ...] = get_args(Sort)
LABELS = (*map(str, Label), "unjudged")  # the values of `label`
ENDINGS = (*map(str, Ending), "cut_off")  # the values of `ending`

_MAX_TASKS = 50  # shown of one scenario
_MAX_EPISODES = 15
_OUTCOMES = {
    Label.COMPLETED: "completed",
    Label.PARTIALLY_COMPLETED: "partly",
    Label.AGENT_ERROR: "failed",
    Label.ENVIRONMENT_ERROR: "env error",
}
_RANKS = ("failed", "partly", "env error", "unjudged", "other", "no score", "completed", "answered")
_STYLES = {word: LABEL_STYLES[label] for label, word in _OUTCOMES.items()}

EpisodeRows = Sequence[EpisodeRow]


def render_run(
    reader: LogReader,
    console: Console,
    *,
    label: str | None = None,
    task: str | None = None,
    ending: str | None = None,
    sort: str | None = None,
    full: bool = False,
    prices: Prices | None = None,
    diagnoses: Diagnoses | None = None,
    statistics_of: StatisticsOf | None = None,
) -> None:
    """Print the run's tasks with their outcomes, how endings, labels, kinds of failure and lengths
    are distributed, and a list of episodes.

    `label` (one of LABELS), `ending` (one of ENDINGS) and `task` (a task's id, `scenario:task`, or
    a shell pattern such as `refund-*`) select episodes. `sort` (one of SORTS, default `failures`)
    orders tasks and episodes. `prices` are those of models (None: they are not known), `diagnoses`
    those of the episodes (None: the ones that the log has). `statistics_of` computes the intervals
    of a run that is shown as a whole (None: none are shown).
    """
    rows = reader.episodes()
    chosen = [row for row in rows if _matches(row, label, task, ending)]
    count = plural(len(rows), "episode")
    if len(chosen) < len(rows):
        count = f"{len(chosen):,} of {count} {_filters(label, task, ending)}"
    elif policy := players(rows):
        count += f", {played_by(policy)}"
    console.print(Text(printable(f"{reader.path.parent}: {count}"), "bold"), soft_wrap=True)
    if not chosen:
        return
    found = read_priced_use(reader, chosen, prices)
    view = _RunView(
        rows,
        sort or "failures",
        console.width,
        full,
        tokens={} if found is None else found.tokens,
        prices=prices,
    )
    console.print(view.totals(chosen))
    if (theirs := profile_score(row.profile for row in chosen if row.ending)) is not None:
        console.print(Text(profile_line(theirs)), soft_wrap=True)
    if statistics_of is not None and len(chosen) == len(rows):
        for line in [*statistics_lines(statistics_of(rows)), ""]:
            console.print(line, highlight=False)
    for line in [] if found is None else [*model_use_lines(found.use, found.times), ""]:
        console.print(line, highlight=False, soft_wrap=True)
    console.print(view.tasks(chosen))
    console.print(bar_chart("endings", Counter(_ending(row) for row in chosen)))
    console.print(bar_chart("labels", Counter(_label(row) for row in chosen)))
    known = diagnoses_in(rows) if diagnoses is None else diagnoses
    if failures := count_kinds(known.get(row.episode) for row in chosen):
        console.print(bar_chart("failures", failures))
    console.print(bar_chart("steps", _spread([row.num_steps for row in chosen])))
    console.print(view.episodes(chosen))


class _RunView:
    """Renders the lists of a run for a terminal of `width` columns. `rows` are all its episodes,
    and `tokens` those of the model in each (empty: no model played)."""

    def __init__(
        self,
        rows: EpisodeRows,
        sort: str,
        width: int,
        full: bool,
        *,
        tokens: Mapping[str, TokenCount],
        prices: Prices | None,
    ) -> None:
        self._tokens = tokens
        self._prices = prices
        self._model = model_of(rows)
        self._is_judged = any(row.judge is not None for row in rows)
        self._sort = sort
        self._width = width
        self._full = full

    def totals(self, rows: EpisodeRows) -> Text:
        """Example: 12 tasks: 40 completed (83%), 6 failed, 2 unjudged"""
        counts = Counter(map(self._outcome, rows))
        texts = [f"{counts[name]:,} {name}" for name in self._outcomes(rows) if counts[name]]
        done, decided = counts["completed"], tally(rows)
        failures = sum(row.ending is Ending.POLICY_ERROR for row in rows)
        if self._is_judged and decided.rate is not None:
            low, high = decided.bounds
            bounds = f"; {low:.0%} to {high:.0%}" if decided.without else ""
            lacks = lacks_model(failures, len(rows))
            share = "" if lacks else f" ({decided.rate:.0%}{bounds})"
            texts[: done > 0] = [f"{done:,} completed{share}"]
        if failures:
            texts.append(plural(failures, "model failure"))
        if refusals := sum(row.ending is Ending.MODEL_REFUSED for row in rows):
            texts.append(f"{refusals:,} refused by the provider")
        tasks = len({(row.scenario, row.task) for row in rows})
        return Text(f"{plural(tasks, 'task')}: {', '.join(texts)}\n")

    def tasks(self, rows: EpisodeRows) -> RenderableType:
        """A line per task, under a line per scenario, with a count for each outcome."""
        outcomes = self._outcomes(rows)
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        table.add_column("", **self._text_column(self._task_width(outcomes, rows)))
        for name in outcomes:
            table.add_column(name, justify="right", style=_STYLES.get(name, ""))
        if self._full:
            table.add_column("steps", justify="right")
            table.add_column("seconds", justify="right")
        if self._full and self._tokens:
            table.add_column("tokens", justify="right")
            table.add_column("cost", justify="right")
        table.add_column("example", no_wrap=True)
        for scenario, members in _grouped(rows, lambda row: row.scenario):
            table.add_row(Text(printable(scenario), "bold"), *self._cells(outcomes, members, ""))
            for task, episodes in self._shown_tasks(members):
                cells = self._cells(outcomes, episodes, self._example(episodes))
                table.add_row(Text(f"  {printable(task)}"), *cells)
            if hidden := self._hidden_tasks(members):
                table.add_row(Text(f"  and {hidden}", "dim"))
        return table

    def episodes(self, rows: EpisodeRows) -> RenderableType:
        """A line per episode, as many as fit on a page."""
        shown = sorted(rows, key=self._order_of_episode)
        if not self._full:
            shown = shown[:_MAX_EPISODES]
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        has_shares = any(row.share is not None for row in rows)

        def shares(row: EpisodeRow) -> tuple[str, ...]:
            return ("" if row.share is None else f"{row.share:.2f}",) * has_shares

        cells = [
            (
                printable(row.episode),
                self._outcome(row),
                *shares(row),
                _ending(row),
                f"{row.num_steps:,}",
            )
            for row in shown
        ]
        heads = ("episode", "outcome", *(("share",) * has_shares), "ending", "steps")
        widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
        for head in heads:
            table.add_column(
                head, justify="right" if head in ("share", "steps") else "left", no_wrap=True
            )
        left_over = self._width - sum(widths) - 2 * len(widths)
        table.add_column("task", **self._text_column(left_over))
        for row, (episode, outcome, *others) in zip(shown, cells, strict=True):
            styled = Text(outcome, _STYLES.get(outcome, ""))
            table.add_row(Text(episode), styled, *others, self._task_and_reason(row))
        left = len(rows) - len(shown)
        more = [Text(f"and {plural(left, 'more episode')}")] if left > 0 else []
        return Group(Text("\nepisodes", "bold"), table, *more)

    def _outcomes(self, rows: EpisodeRows) -> list[str]:
        """The columns: in a judged run those of the labels, else whether the agent answered."""
        if not self._is_judged:
            return ["answered", "other"]
        found = {self._outcome(row) for row in rows}
        return [
            *("completed", "partly", "failed"),
            *(name for name in ("env error", "unjudged", "no score") if name in found),
        ]

    def _outcome(self, row: EpisodeRow) -> str:
        if not self._is_judged:
            return "answered" if row.ending is Ending.ANSWERED else "other"
        if row.label is None:
            return "unjudged" if row.has_score else "no score"
        return _OUTCOMES[row.label]

    def _is_success(self, row: EpisodeRow) -> bool:
        return self._outcome(row) in ("completed", "answered", "no score")

    def _cells(self, outcomes: Sequence[str], rows: EpisodeRows, example: str) -> list[Text | str]:
        counts = Counter(map(self._outcome, rows))
        numbers = [f"{counts[name]:,}" if counts[name] else "·" for name in outcomes]
        if self._full:
            numbers.append(f"{sum(row.num_steps for row in rows) / len(rows):.1f}")
            numbers.append(f"{sum(row.seconds for row in rows) / len(rows):.2f}")
        if self._full and self._tokens:
            numbers += self._model_cells(rows)
        return [*numbers, Text(printable(example), "dim")]

    def _model_cells(self, rows: EpisodeRows) -> list[str]:
        """The mean number of tokens of an episode, and what all of them cost, in USD."""
        count = sum_of_tokens(
            self._tokens[row.episode] for row in rows if row.episode in self._tokens
        )
        cost = cost_of(count, self._model, self._prices)
        mean = (count.prompt + count.completion) / len(rows)
        return [f"{mean:,.0f}", "–" if cost is None else f"{cost:.4f}"]

    def _example(self, rows: EpisodeRows) -> str:
        """The id of the worst of a task's episodes; empty where all succeeded."""
        failures = [row for row in rows if not self._is_success(row)]
        return min(failures, key=self._order_of_failure).episode if failures else ""

    def _shown_tasks(self, rows: EpisodeRows) -> list[tuple[str, EpisodeRows]]:
        tasks = sorted(_grouped(rows, lambda row: row.task), key=self._order_of_task)
        return tasks if self._full else tasks[:_MAX_TASKS]

    def _hidden_tasks(self, rows: EpisodeRows) -> str:
        """The tasks after the shown ones, counted; empty where all are shown.

        Example: "65 more tasks, all completed"
        """
        tasks = sorted(_grouped(rows, lambda row: row.task), key=self._order_of_task)
        hidden = [] if self._full else tasks[_MAX_TASKS:]
        if not hidden:
            return ""
        outcomes = {self._outcome(row) for _, members in hidden for row in members}
        note = f", all {outcomes.pop()}" if len(outcomes) == 1 else ""
        return f"{plural(len(hidden), 'more task')}{note}"

    def _order_of_task(self, task: tuple[str, EpisodeRows]) -> tuple[float, str]:
        name, rows = task
        if self._sort == "steps":
            return -sum(row.num_steps for row in rows) / len(rows), name
        if self._sort == "seconds":
            return -sum(row.seconds for row in rows) / len(rows), name
        if self._sort == "failures":
            return -sum(not self._is_success(row) for row in rows), name
        return 0.0, name if self._sort == "task" else min(row.episode for row in rows)

    def _order_of_episode(self, row: EpisodeRow) -> tuple[float, str, str]:
        if self._sort == "steps":
            return -row.num_steps, "", row.episode
        if self._sort == "seconds":
            return -row.seconds, "", row.episode
        if self._sort == "failures":
            return self._order_of_failure(row)
        return 0.0, row.task if self._sort == "task" else "", row.episode

    def _order_of_failure(self, row: EpisodeRow) -> tuple[float, str, str]:
        return _RANKS.index(self._outcome(row)), "", row.episode

    def _task_and_reason(self, row: EpisodeRow) -> Text:
        text = Text(printable(row.task))
        if reason := row.error or row.unjudged:
            text.append(f": {printable(reason) if self._full else shorten(reason, 200)}", "dim")
        return text

    def _task_width(self, outcomes: Sequence[str], rows: EpisodeRows) -> int:
        """The columns that are left for names beside the other columns of the table."""
        example = max(len("example"), *(len(printable(row.episode)) for row in rows))
        others: list[int] = [*map(len, outcomes), example, *((5, 7) if self._full else ())]
        return self._width - sum(others) - 2 * len(others) - 2

    def _text_column(self, width: int) -> dict[str, Any]:
        """The options of a column with texts of any length, `width` columns wide."""
        if self._full:
            return {"overflow": "fold"}
        return {"overflow": "ellipsis", "no_wrap": True, "max_width": max(12, width)}


def _matches(row: EpisodeRow, label: str | None, task: str | None, ending: str | None) -> bool:
    names = (row.task, f"{row.scenario}:{row.task}")
    return (
        (label is None or label == (row.label or "unjudged"))
        and (ending is None or ending == (row.ending or "cut_off"))
        and (task is None or any(fnmatchcase(name, task) for name in names))
    )


def _filters(label: str | None, task: str | None, ending: str | None) -> str:
    """Example: "with label agent_error, task refund-*" """
    chosen = {"label": label, "task": task, "ending": ending}
    return "with " + ", ".join(f"{name} {value}" for name, value in chosen.items() if value)


def _grouped(rows: EpisodeRows, key: Callable[[EpisodeRow], str]) -> list[tuple[str, EpisodeRows]]:
    groups: dict[str, list[EpisodeRow]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return sorted(groups.items())


def _ending(row: EpisodeRow) -> str:
    return row.ending or "cut off"


def _label(row: EpisodeRow) -> str:
    if row.label is not None:
        return row.label
    if not row.has_score:
        return "no score"
    return "not judged" if row.judge is None else "unjudged"


def _spread(numbers: Sequence[int]) -> dict[str, int]:
    """Numbers counted in at most ten ranges of equal width, empty ones included.

    Example: [1, 2, 2, 4] -> {"1": 1, "2": 2, "3": 0, "4": 1}
    """
    low, high = min(numbers), max(numbers)
    width = (high - low) // 10 + 1
    spread = {}
    for start in range(low, high + 1, width):
        word = str(start) if width == 1 else f"{start}-{start + width - 1}"
        spread[word] = sum(start <= number < start + width for number in numbers)
    return spread
