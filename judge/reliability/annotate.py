"""A person labels episodes at a terminal (`rehearse judge label RUN`).

Blind: neither verdicts nor the agent's name are shown before the label is given, and the verifier's
findings only on demand, which the label then records. Every label is in the file before the next
episode is shown, so that quitting at any moment loses nothing.
"""

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from random import Random

import msgspec
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.harness.core.events import Judged, Label
from rehearsal_room.harness.core.messages import Act
from rehearsal_room.harness.core.terminal_text import printable
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.reports.episode_view import (
    changes_table,
    findings_table,
    render_episode,
)
from rehearsal_room.judge.core.evidence import ScenarioInfo, changes_of, episode_digest
from rehearsal_room.judge.reliability.annotations import HumanLabel, LabelBook

KEYS = {
    "c": Label.COMPLETED,
    "p": Label.PARTIALLY_COMPLETED,
    "a": Label.AGENT_ERROR,
    "e": Label.ENVIRONMENT_ERROR,
}
_HELP = """\
c  completed            all that was asked for is done, and nothing else
p  partially completed  a part of it is done, and nothing is damaged
a  agent error          the agent failed, or did damage
e  environment error    the world failed, the agent could not help it
n  note                 add a sentence to the next label
f  findings             show the verifier's findings (the label will record it)
w  whole                show the episode's texts, not shortened
r  repeat               show the episode a second time
v  verdicts             show the judges' verdicts on the episode that you labelled last
s  skip                 label it in another session
u  undo                 withdraw the last label and show its episode
q  quit                 all labels are saved"""
_PROMPT = "completed, partially, agent error, environment error [c/p/a/e], help [?]: "


class SessionResult(msgspec.Struct, frozen=True):
    """The result of a session."""

    labelled: int
    left: int  # episodes of the session without a label


def shuffled_episodes(episodes: Collection[str], done: Collection[str], *, seed: int) -> list[str]:
    """The episodes without a label, in an order that depends only on the seed."""
    names = sorted(set(episodes))
    Random(seed).shuffle(names)
    return [name for name in names if name not in done]


class LabellingSession:
    """One session of one labeller. `read` shows a prompt and returns the typed line; its EOFError
    means quit."""

    def __init__(
        self,
        episodes: Sequence[str],
        book: LabelBook,
        *,
        labeller: str,
        trajectory_of: Callable[[str], Trajectory],
        scenario_info: Callable[[Trajectory], ScenarioInfo],
        read: Callable[[str], str],
        console: Console,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._episodes = episodes
        self._book = book
        self._labeller = labeller
        self._trajectory_of = trajectory_of
        self._info_of = scenario_info
        self._read = read
        self._console = console
        self._now = now
        self._labelled: list[int] = []  # indices of labelled episodes, the latest last

    def run(self) -> SessionResult:
        """Show the episodes until they end or the labeller quits. Raises JudgeError when a label
        cannot be written."""
        if self._book.removed:
            self._print("The file's last line was cut off; it is removed.")
        index: int | None = 0
        with suppress(EOFError):
            while index is not None and index < len(self._episodes):
                index = self._label_one(index)
            if index is not None:
                self._print("That was the last one.")
        return SessionResult(len(self._labelled), len(self._episodes) - len(self._labelled))

    def _label_one(self, index: int) -> int | None:
        """Get the label of one episode; returns the index of the next one, None to quit."""
        trajectory = self._trajectory_of(self._episodes[index])
        self._show(index, trajectory)
        note, saw_findings = "", False
        while True:
            key = self._read(_PROMPT).strip().lower()
            if key in KEYS:
                self._add(trajectory, KEYS[key], note, saw_findings)
                self._labelled.append(index)
                return index + 1
            if key == "q":
                return None
            if key == "s":
                return index + 1
            if key == "u" and self._labelled:
                return self._undo()
            if key == "n":
                note = self._read("note: ").strip()
            elif key == "f":
                saw_findings = self._show_findings(trajectory) or saw_findings
            elif key == "r":
                self._show(index, trajectory)
            else:
                self._show_more(key, trajectory)

    def _show_more(self, key: str, trajectory: Trajectory) -> None:
        """Handle the keys that only show something."""
        if key == "w":
            self._show_whole(trajectory)
        elif key == "v" and self._labelled:
            labelled = self._trajectory_of(self._episodes[self._labelled[-1]])
            self._show_verdicts(labelled.episode, labelled.judged)
        elif key in ("u", "v"):
            self._print("Nothing has been labelled yet.")
        else:
            self._print(_HELP)

    def _add(self, trajectory: Trajectory, label: Label | None, note: str, saw: bool) -> None:
        self._book.add(
            HumanLabel(
                trajectory.episode,
                label,
                episode_digest(trajectory),
                self._labeller,
                note,
                saw,
                self._now(),
            )
        )
        if label is not None:
            self._print(f"{trajectory.episode}: {label}")

    def _undo(self) -> int:
        index = self._labelled.pop()
        self._add(self._trajectory_of(self._episodes[index]), None, "", False)
        return index

    def _show(self, index: int, trajectory: Trajectory) -> None:
        """Show the episode, without verdicts, findings and the agent's name."""
        self._console.rule(f"{index + 1} of {len(self._episodes)}")
        info = self._info_of(trajectory)
        if info.rules:
            rules = Text(printable(info.rules.strip()))
            self._console.print(Panel(rules, title="the world's rules"))
        if info.user or info.now:
            self._print(f"user {info.user}, clock {info.now}")
        started = msgspec.structs.replace(trajectory.started, policy="hidden")
        render_episode(
            msgspec.structs.replace(trajectory, started=started, judged=()), self._console
        )
        self._show_changes(trajectory)

    def _show_changes(self, trajectory: Trajectory) -> None:
        changes = changes_of(trajectory)
        self._console.print(Text("\nthe world, end against start", "bold"))
        self._console.print(changes_table(changes) if changes else Text("no row differs"))

    def _show_findings(self, trajectory: Trajectory) -> bool:
        """Show the findings of the latest verdict that has any; returns whether there are any."""
        found = [judged.findings for judged in trajectory.judged if judged.findings]
        if not found:
            self._print("This episode has no verdict with findings.")
            return False
        self._console.print(findings_table(found[-1]))
        return True

    def _show_whole(self, trajectory: Trajectory) -> None:
        """Show the texts of the episode, however long."""
        texts = [("instruction", trajectory.started.instruction)]
        for number, step in enumerate(trajectory.steps, 1):
            texts.append((f"turn {number}", step.reply.text))
            calls = step.decision.calls if isinstance(step.decision, Act) else ()
            for index, call in enumerate(calls):
                arguments = msgspec.json.encode(call.arguments).decode()
                texts.append((f"turn {number} calls", f"{call.name} {arguments}"))
                if index < len(step.results):
                    texts.append((f"turn {number} results", _result_text(step.results[index])))
        if trajectory.ended is not None:
            texts.append(("answer", trajectory.ended.answer))
        for title, text in texts:
            if text.strip():
                self._console.print(Panel(Text(printable(text)), title=title, title_align="left"))

    def _show_verdicts(self, episode: str, verdicts: Sequence[Judged]) -> None:
        self._print(f"{episode}:" if verdicts else f"{episode} has no verdict.")
        for judged in verdicts:
            verdict = judged.label or f"unjudged: {judged.unjudged or 'no reason was given'}"
            self._print(f"  {judged.judge}: {verdict}")

    def _print(self, text: str) -> None:
        self._console.print(Text(printable(text)))


def _result_text(result: ToolResult) -> str:
    return result.text if result.error is None else f"{result.error}: {result.text}"
