"""A campaign of kills in mid-episode: a run is killed at random points, and resumed at the turn.

    python -m tests.support.resume_campaign KILLS SEED      (`just resumes`)

A chain begins a run in a new folder, as a process of its own, whose model answers from this
process. At a random request the model's server kills it, before the reply or up to 30 ms after it,
and `--resume` begins the next life; so on until one ends by itself. Every request is compared with
those of a run that was left alone:

- the requests of each life about an episode are exactly those that follow the replies which the log
  had when the life began: none of these is asked for again, none is left out, and each window is
  the one that the undisturbed agent saw;
- no call of a logged reply is made as a new one, and each attempt begins with the logged replies;
- at the end report, results, endings and digests equal those of the undisturbed run.

The chains differ in their history window, and in where the tools run: in the process itself, in
workers, which die with it, or on a server of worlds, which goes on.
"""

import asyncio
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import msgspec
from rich.console import Console
from rich.table import Table

from rehearsal_room.harness.core.events import HistorySummarized, Record, StepTaken
from rehearsal_room.harness.history.summary import PROMPT
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import LOG_NAME
from rehearsal_room.scenarios.catalogue import find
from tests.support.attempts import check_attempts, outcomes_of, records_of
from tests.support.judged_runs import served
from tests.support.model_server import Completes, ModelServer, ReceivedRequest
from tests.support.warm_process import WarmProcess, open_warm_process

_SCENARIOS = ("shop_support", "claims_desk")
_SEED = 11  # of the runs
_LONGEST_DELAY = 0.03  # seconds between a reply and the kill
_MOST_KILLS = 8  # in one chain
_SUMMARY = "I have done what came first."

Asked = dict[int, list[bytes]]  # by the requests' seed, one for each episode: digests of windows


class Course(msgspec.Struct, frozen=True):
    """The settings of a chain's run."""

    history: str
    where: Literal["here", "in workers", "on a server"] = "here"  # the tools run

    def __str__(self) -> str:
        return f"{self.history}, {self.where}"


COURSES = (
    *(Course("summary:2500"), Course("full", "in workers"), Course("last:2")),
    *(Course("retrieve:2"), Course("full", "on a server"), Course("full")),
)


class Model:
    """The model: it makes the oracle's calls, one to three in a reply, and then gives the answer.

    Its reply follows from the window alone. It notes what it was asked, and kills the process
    `victim` at its `kill_at`-th request.
    """

    def __init__(self) -> None:
        self.asked: Asked = defaultdict(list)
        self.num_requests = 0
        self.victim = 0  # process id; 0: there is none
        self.kill_at = 0  # 0: never
        self.delay: float | None = None  # seconds from the reply to the kill; None: before it
        self._replies: dict[str, list[Completes]] = {}
        for scenario in map(find, _SCENARIOS):
            for task in scenario.default_tasks:
                assert task.instruction not in self._replies
                self._replies[task.instruction] = _replies_of(task)

    async def perform(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
        """Answer, and kill where this is the moment."""
        messages = request.body["messages"]
        self.asked[request.body["seed"]].append(digest_of(messages))
        self.num_requests += 1
        is_moment = self.num_requests == self.kill_at
        if is_moment and self.delay is None:
            self._kill(self.victim)
            return False
        stays = await self._reply_to(messages).perform(request, writer)
        if is_moment:
            assert self.delay is not None
            asyncio.get_running_loop().call_later(self.delay, self._kill, self.victim)
        return stays

    def _kill(self, victim: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)

    def _reply_to(self, messages: Sequence[dict[str, Any]]) -> Completes:
        if PROMPT in str(messages[-1]["content"]):
            return Completes(_SUMMARY)
        opening = next(str(one["content"]) for one in messages if one["role"] == "user")
        (replies,) = [known for text, known in self._replies.items() if text in opening]
        ids = [call["id"] for one in messages for call in one.get("tool_calls") or ()]
        turn = max((int(id[1:].partition("-")[0]) for id in ids), default=-1) + 1
        return replies[min(turn, len(replies) - 1)]


def _replies_of(task: Any) -> list[Completes]:
    rng, replies, rest = random.Random(task.id), [], list(task.oracle)
    while rest:
        size = rng.randint(1, 3)
        calls = [
            (f"x{number}", call.name, msgspec.json.encode(call.arguments).decode())
            for number, call in enumerate(rest[:size])
        ]
        replies.append(Completes(None, tuple(calls)))
        rest = rest[size:]
    return [*replies, Completes(task.answer or "Done.")]


def digest_of(messages: object) -> bytes:
    """The digest of a request's window."""
    return blake2b(msgspec.json.encode(messages, order="deterministic"), digest_size=8).digest()


class _Undisturbed(msgspec.Struct, frozen=True):
    """What a run did that was left alone."""

    asked: Asked
    outcomes: dict[str, object]
    report: bytes


class Kill(msgspec.Struct, frozen=True):
    """One kill: in which course, at which request of a life, how long after the reply."""

    course: Course
    request: int
    delay: float | None  # None: before the reply


class ResumeCampaign:
    """Kills with one seed, in one folder."""

    def __init__(
        self,
        warm: WarmProcess,
        server: ModelServer,
        model: Model,
        folder: Path,
        *,
        seed: int,
        episodes: int,
    ) -> None:
        self._warm = warm
        self._server = server
        self._model = model
        self._folder = folder
        self._rng = random.Random(seed)
        self._episodes = episodes
        self._undisturbed: dict[Course, _Undisturbed] = {}
        self._worlds = ""  # the URL of the server of worlds; empty: not started yet
        self.kills: list[Kill] = []
        self.num_continued = 0  # attempts that went on after logged turns
        self.num_kept = 0  # logged replies with which they began
        self.num_asked = 0  # requests in all lives

    def run(self, num_kills: int, courses: Sequence[Course] = COURSES) -> None:
        """Kill so many times, over chains of these courses in turn. Raises AssertionError for the
        first life that asked again, left out or changed something."""
        number = 0
        while len(self.kills) < num_kills:
            course = courses[number % len(courses)]
            folder = self._folder / f"chain{number}"
            self._chain(course, folder, num_kills)
            shutil.rmtree(folder)
            number += 1

    def _chain(self, course: Course, folder: Path, num_kills: int) -> None:
        expected = self._undisturbed.get(course) or self._measure(course)
        num_requests = sum(map(len, expected.asked.values()))
        last = min(num_kills, len(self.kills) + self._rng.randint(1, _MOST_KILLS))
        is_killed = True
        while is_killed:
            logged = _logged(folder)
            is_last = len(self.kills) == last
            kill_at = 0 if is_last else self._rng.randint(1, max(2, num_requests // 3))
            delay = self._rng.choice((None, self._rng.uniform(0.0, _LONGEST_DELAY)))
            status = self._live(course, folder, kill_at, delay)
            self._check_asked(expected.asked, logged)
            is_killed = status == -signal.SIGKILL
            if is_killed:
                self.kills.append(Kill(course, kill_at, delay))
            else:
                assert status == 0, self._output().read_text()[-2000:]
        records = records_of(folder)
        self.num_continued += check_attempts(records)
        self.num_kept += sum(getattr(record.event, "kept", 0) for record in records)
        assert outcomes_of(folder) == expected.outcomes
        assert (folder / "report.json").read_bytes() == expected.report

    def _measure(self, course: Course) -> _Undisturbed:
        """Run a course once undisturbed."""
        folder = self._folder / "quiet"
        assert self._live(course, folder, 0, None) == 0, self._output().read_text()[-2000:]
        found = _Undisturbed(
            dict(self._model.asked), outcomes_of(folder), (folder / "report.json").read_bytes()
        )
        replies = _logged(folder)
        assert {seed: len(asked) for seed, asked in found.asked.items()} == replies
        self._undisturbed[course] = found
        shutil.rmtree(folder)
        return found

    def _live(self, course: Course, folder: Path, kill_at: int, delay: float | None) -> int:
        """One life of a run; returns its exit status, which is negative where it was killed."""
        model = self._model
        model.asked, model.num_requests = defaultdict(list), 0
        model.kill_at, model.delay = 0, delay
        self._server.requests.clear()
        child = self._warm.start_command(
            *("run", *_SCENARIOS, "-p", "openai", "-m", "m", "--base-url", self._server.url),
            *("-n", self._episodes, "-c", 8, "--seed", _SEED, "--no-preflight"),
            *("--history", course.history, *self._tool_flags(course), "-o", folder, "--resume"),
            output=self._output(),
        )
        model.victim, model.kill_at = child.pid, kill_at
        status = child.wait()
        while self._server.num_open:  # requests that are still in its sockets are this life's
            time.sleep(0.001)
        self.num_asked += model.num_requests
        return status

    def _tool_flags(self, course: Course) -> Sequence[object]:
        """The flags that say where the tools run."""
        if course.where == "here":
            return ()
        if course.where == "in workers":
            return "--isolate", "--workers", 1
        if not self._worlds:
            output = self._folder / "worlds.txt"
            self._warm.start_command("serve", *_SCENARIOS, "--http", "127.0.0.1:0", output=output)
            while (found := re.search(r"serving on (http://\S+)", output.read_text())) is None:
                time.sleep(0.01)
            self._worlds = found[1]
        return "--pool", self._worlds

    def _check_asked(self, expected: Asked, logged: dict[int, int]) -> None:
        """Check that a life asked for what the log did not have, in order, and for nothing else."""
        last = self.kills[-1:]
        for seed, asked in self._model.asked.items():
            first = logged.get(seed, 0)
            assert asked == expected[seed][first : first + len(asked)], (seed, first, last)

    def _output(self) -> Path:
        return self._folder / "output.txt"

    def table(self) -> Table:
        """The number of kills by course and moment."""
        counts = Counter((kill.course, kill.delay is None) for kill in self.kills)
        caption = (
            f"{self.num_asked:,} requests, none for a logged reply; {self.num_continued:,} attempts"
            f" went on after {self.num_kept:,} logged replies"
        )
        table = Table("course", "before a reply", "after a reply", caption=caption)
        for course in COURSES:
            table.add_row(str(course), *(str(counts[course, before]) for before in (True, False)))
        return table


def _logged(folder: Path) -> dict[int, int]:
    """How many replies the log has of each episode, by the seed of its requests."""
    if not (folder / LOG_NAME).exists():
        return {}
    with open_reader(folder) as reader:
        records = [record for _, record in reader.records_after(0, 1_000_000)]
    return _longest(records)


def _longest(records: Sequence[Record]) -> dict[int, int]:
    seeds: dict[str, int] = {}
    counts: Counter[tuple[str, int]] = Counter()
    for record in records:
        if isinstance(record.event, StepTaken | HistorySummarized):
            counts[record.episode, record.attempt] += 1
        elif record.seq == 0:
            seeds[record.episode] = (_SEED + getattr(record.event, "seed", 0)) % 2**31
    longest: dict[int, int] = {}
    for (episode, _), count in counts.items():
        seed = seeds[episode]
        longest[seed] = max(longest.get(seed, 0), count)
    return longest


if __name__ == "__main__":
    _model = Model()
    with (
        open_warm_process(
            "tests.support.loaded_commands", "rehearsal_room.harness.policies.openai"
        ) as _warm_process,
        served(_model) as _server,
        tempfile.TemporaryDirectory() as _folder,
    ):
        campaign = ResumeCampaign(
            *(_warm_process, _server, _model, Path(_folder)), seed=int(sys.argv[2]), episodes=16
        )
        try:
            campaign.run(int(sys.argv[1]))
        finally:
            Console(width=100).print(campaign.table())
