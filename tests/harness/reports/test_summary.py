"""The headline of a run, and when its model was missing."""

from io import StringIO

import msgspec
import pytest
from rich.console import Console

from rehearsal_room.harness.core.events import Ending, Label
from rehearsal_room.harness.log.schema import EpisodeRow
from rehearsal_room.harness.outcomes.model_failures import cause_of, is_outage
from rehearsal_room.harness.reports.summary import headline, render_run_report, report_of

REFUSED = "model 'm' at http://127.0.0.1:9/v1: connection refused (after 8 attempts)"
BUSY = "model 'a: b' at http://x/v1: status 503: busy (after 1 attempt)"


def row(number: int, label: Label | None = None, error: str | None = None) -> EpisodeRow:
    ending = Ending.ANSWERED if error is None else Ending.POLICY_ERROR
    reward = None if label is None else float(label is Label.COMPLETED)
    return EpisodeRow(
        episode=f"e{number}",
        attempt=1,
        scenario="s",
        task="t",
        group="g",
        member=0,
        policy="p",
        scenario_digest="d",
        started_at=0.0,
        num_steps=2,
        ending=ending,
        error=error,
        label=label,
        reward=reward,
        judge="code",
    )


def rows(passed: int, failed: int, errors: list[str], unjudged: int = 0) -> list[EpisodeRow]:
    labels = [Label.COMPLETED] * passed + [Label.AGENT_ERROR] * failed + [None] * unjudged
    judged = [row(number, label) for number, label in enumerate(labels)]
    return judged + [row(1000 + number, error=error) for number, error in enumerate(errors)]


@pytest.mark.parametrize(
    ("found", "text", "lacks_model"),
    [
        (rows(3, 1, []), "4 episodes, 8 steps, pass rate 0.750, mean reward 0.750", False),
        (
            rows(1, 1, [], unjudged=2),
            "4 episodes, 8 steps, pass rate 0.500 (0.250 to 0.750 with the 2 without a verdict),"
            " mean reward 0.500, 2 unjudged",
            False,
        ),
        (
            rows(4, 0, [REFUSED] * 116),
            "4 judged of 120; 116 model failures: connection refused",
            True,
        ),
        (
            rows(9, 9, [REFUSED, BUSY]),
            "18 judged of 20; 2 model failures: connection refused (1), status 503: busy (1);"
            " pass rate 0.500 (0.450 to 0.550 with the 2 without a verdict),"
            " mean reward 0.500 of the judged",
            False,
        ),
        (rows(17, 0, [BUSY] * 3), "17 judged of 20; 3 model failures: status 503: busy", True),
        (rows(0, 0, [BUSY]), "0 judged of 1; 1 model failure: status 503: busy", True),
        (
            rows(1, 0, [BUSY], unjudged=3),
            "1 judged of 5; 1 model failure: status 503: busy, 3 unjudged",
            True,
        ),
    ],
)
def test_headlines(found: list[EpisodeRow], text: str, lacks_model: bool) -> None:
    """Where the model failed in more than a tenth of the episodes, there is no pass rate."""
    report = report_of(found)
    assert (headline(report), report.lacks_model) == (text, lacks_model)


@pytest.mark.parametrize(
    ("max_steps", "words"),
    [(7, "7, as set"), (None, "2.5 times the steps of the task's solution, at least 20")],
)
def test_the_step_limit_is_named_where_it_was_reached(max_steps: int | None, words: str) -> None:
    """The summary says whether the limit was set or is that of the task."""
    stopped = msgspec.structs.replace(row(1, Label.AGENT_ERROR), ending=Ending.STEP_LIMIT)
    console = Console(file=StringIO(), width=200)
    for found in ([row(0, Label.COMPLETED)], [row(0, Label.COMPLETED), stopped]):
        render_run_report(msgspec.structs.replace(report_of(found), max_steps=max_steps), console)
    assert isinstance(console.file, StringIO)
    lines = [line for line in console.file.getvalue().splitlines() if "step limit" in line]
    assert lines == [f"1 episode reached the step limit: {words}"]


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (REFUSED, "connection refused"),
        (BUSY, "status 503: busy"),
        ("no reply within 300 s", "no reply within 300 s"),
        ("ValueError: a\nb (agent.py, line 3)", "ValueError: a b (agent.py, line 3)"),
        ("x" * 200, "x" * 100 + "…"),
        ("", ""),
    ],
)
def test_causes(error: str, cause: str) -> None:
    """A cause has neither model nor URL nor the number of attempts, and fits a line."""
    assert cause_of(error) == cause


def test_withheld_replies_are_counted_apart() -> None:
    """Episodes whose provider withheld a reply are neither model failures nor merely unjudged."""
    refused = [
        msgspec.structs.replace(one, ending=Ending.MODEL_REFUSED)
        for one in rows(0, 0, ["model 'm' at http://x/v1: withheld (after 1 attempt)"] * 2)
    ]
    report = report_of([*rows(3, 1, []), *refused])
    assert (report.model_refusals, report.model_failures, report.unjudged) == (2, 0, 2)
    assert headline(report) == (
        "6 episodes, 12 steps, pass rate 0.750 (0.500 to 0.833 with the 2 without a verdict), mean"
        " reward 0.750, 2 refused by the provider"
    )


class APIConnectionError(Exception):
    """As the clients of model servers name it."""


class InternalServerError(Exception):
    """With the status that clients give it."""

    status_code = 500


class BadRequestError(Exception):
    """The agent's own fault."""

    status_code = 400


def test_what_an_outage_is() -> None:
    """No connection and a failure of the server are; a request that is wrong, or a bug, is not."""
    outages = (
        APIConnectionError(),
        InternalServerError(),
        ConnectionRefusedError(),
        TimeoutError(),
    )
    assert [is_outage(one) for one in outages] == [True] * 4
    assert [is_outage(one) for one in (BadRequestError(), KeyError("order"))] == [False] * 2
    wrapped = RuntimeError("no reply")
    wrapped.__cause__ = InternalServerError()
    assert is_outage(wrapped)
