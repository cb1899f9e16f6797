"""Replies and answers that are too long are cut before log, bus and judge."""

import time
from pathlib import Path

import anyio
import pytest

import rehearsal_room as rr
from rehearsal_room.envpool.core.answers import MAX_ANSWER, cut_answer
from rehearsal_room.harness.core.events import Ending
from rehearsal_room.harness.core.messages import AgentCall, Answer, FormatError, Reply
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import LOG_NAME
from rehearsal_room.harness.rollout.reply_limits import (
    MAX_REPLY,
    checked_answer,
    cut_reply,
)


def test_what_fits_stays() -> None:
    """A reply, an answer and a text at their limits are the same."""
    reply, answer = Reply("x" * MAX_REPLY), Answer("x" * MAX_ANSWER)
    assert cut_reply(reply) == (reply, None)
    assert checked_answer(answer) is answer
    assert cut_answer(answer.text) == answer.text


def test_what_does_not_fit_is_cut_with_a_reason() -> None:
    """The beginning and the number of characters are left, and no call is made."""
    cut, fault = cut_reply(Reply("x" * (MAX_REPLY + 1), (AgentCall("t", {}, "c"),)))
    assert (len(cut.text), cut.calls) == (10_000, ())
    assert fault == FormatError("The reply has 2,000,003 characters; write at most 2,000,000.")
    cut, fault = cut_reply(Reply("go", (AgentCall("t", {"x": "y" * MAX_REPLY}, "c"),)))
    assert (cut.text, cut.calls) == ("go", ())
    assert fault is not None and "write at most 2,000,000." in fault.reason
    refused = checked_answer(Answer("x" * (MAX_ANSWER + 1)))
    assert refused == FormatError("The answer has 100,001 characters; write at most 100,000.")
    assert cut_answer("x" * 15_800_000).endswith(
        "it had 15,800,000 characters, of 100,000 that fit)"
    )


@pytest.mark.parametrize("piece", ["a", "1 ", "order 1042 costs 256.35, sorry. "])
def test_an_agent_that_answers_at_length(tmp_path: Path, piece: str) -> None:
    """An answer of 15.8 MB ends its episode within seconds, and its log is small."""

    async def agent(task: rr.TaskView, env: rr.AgentEnv) -> str:
        return piece * (15_800_000 // len(piece))

    began = time.monotonic()
    anyio.run(lambda: rr.rehearse(agent, ["shop_support:cancel-duplicate"], tmp_path / "run"))
    assert time.monotonic() - began < 20
    assert (tmp_path / "run" / LOG_NAME).stat().st_size < 5_000_000
    with open_reader(tmp_path / "run") as reader:
        (trajectory,) = reader.trajectories()
    assert trajectory.ended is not None
    assert trajectory.ended.ending is Ending.ANSWERED
    assert "15,8" in trajectory.ended.answer
