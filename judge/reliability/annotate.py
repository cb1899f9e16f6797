"""A person labels episodes at a terminal (`rehearse label RUN`).

Blind: no verdict and no name of the agent is shown before the label is given, and the verifier's
findings only on demand, which the label then says. Every label is in the file before the next
episode is shown, so that leaving at any moment loses nothing.
"""

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from random import Random

import msgspec
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from envpool.core.types import ToolResult
from harness.core.events import Judged, Label
from harness.core.messages import Act
from harness.core.terminal_text import printable
from harness.core.trajectory import Trajectory
from harness.reports.episode_view import changes_table, findings_table, render_episode
from judge.core.evidence import ScenarioInfo, changes_of, episode_digest
from judge.reliability.annotations import HumanLabel, LabelBook

KEYS = {
    "c": Label.COMPLETED,
    "p": Label.PARTIALLY_COMPLETED,
    "a": Label.AGENT_ERROR,
    "e": Label.ENVIRONMENT_ERROR,
}
_HELP = """\
c  completed            all that was asked is done, and nothing else
p  partially completed  a part of it is done, and nothing is damaged
a  agent error          the agent failed, or did damage
e  environment error    the world failed, the agent could not help it
n  note                 add a sentence to the label that comes
f  findings             what the verifier found (the label will say that you looked)
w  whole                the texts of this episode, not shortened
r  again                show the episode again
v  verdicts             what judges said of the episode that you labelled last
s  skip                 not now; it comes back the next time
u  undo                 take the last label back and show its episode
q  quit                 all labels are written"""
_PROMPT = "completed, partially, agent error, environment error [c/p/a/e], help [?]: "


class Labelled(msgspec.Struct, frozen=True):
    """What a sitting gave."""

    labelled: int
    left: int  # of the episodes that were given, those without a label


def order_of(episodes: Collection[str], done: Collection[str], *, seed: int) -> list[str]:
    """The episodes that are still to be labelled, in an order that only the seed decides."""
    names = sorted(set(episodes))
    Random(seed).shuffle(names)
    return [name for name in names if name not in done]


class Labelling:
    """One sitting of one labeller. `read` shows a prompt and gives the line that was typed; its
    EOFError means quit."""

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
        self._scene_of = scenario_info
        self._read = read
        self._console = console
        self._now = now
        self._given: list[int] = []  # places of the labelled, the latest last

    def run(self) -> Labelled:
        """Go through the episodes until they end or the labeller does. Raises JudgeError when a
        label cannot be written."""
        if self._book.removed:
            self._say("The file's last line was cut off; it is removed, and counts for nothing.")
        place: int | None = 0
        with suppress(EOFError):
            while place is not None and place < len(self._episodes):
                place = self._one(place)
            if place is not None:
                self._say("That was the last one.")
        return Labelled(len(self._given), len(self._episodes) - len(self._given))

    def _one(self, place: int) -> int | None:
        """Have one episode labelled; gives the place of the next, None to quit."""
        trajectory = self._trajectory_of(self._episodes[place])
        self._show(place, trajectory)
        note, saw_findings = "", False
        while True:
            key = self._read(_PROMPT).strip().lower()
            if key in KEYS:
                self._add(trajectory, KEYS[key], note, saw_findings)
                self._given.append(place)
                return place + 1
            if key == "q":
                return None
            if key == "s":
                return place + 1
            if key == "u" and self._given:
                return self._take_back()
            if key == "n":
                note = self._read("note: ").strip()
            elif key == "f":
                saw_findings = self._show_findings(trajectory) or saw_findings
            elif key == "r":
                self._show(place, trajectory)
            else:
                self._look(key, trajectory)

    def _look(self, key: str, trajectory: Trajectory) -> None:
        """The keys that only show something."""
        if key == "w":
            self._show_whole(trajectory)
        elif key == "v" and self._given:
            labelled = self._trajectory_of(self._episodes[self._given[-1]])
            self._show_verdicts(labelled.episode, labelled.judged)
        elif key in ("u", "v"):
            self._say("Nothing has been labelled yet.")
        else:
            self._say(_HELP)

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
            self._say(f"{trajectory.episode}: {label}")

    def _take_back(self) -> int:
        place = self._given.pop()
        self._add(self._trajectory_of(self._episodes[place]), None, "", False)
        return place

    def _show(self, place: int, trajectory: Trajectory) -> None:
        """The episode, without what judges and verifiers say of it and without who played it."""
        self._console.rule(f"{place + 1} of {len(self._episodes)}")
        scene = self._scene_of(trajectory)
        if scene.rules:
            rules = Text(printable(scene.rules.strip()))
            self._console.print(Panel(rules, title="the world's rules"))
        if scene.user or scene.now:
            self._say(f"user {scene.user}, clock {scene.now}")
        started = msgspec.structs.replace(trajectory.started, policy="not told")
        render_episode(
            msgspec.structs.replace(trajectory, started=started, judged=()), self._console
        )
        self._show_changes(trajectory)

    def _show_changes(self, trajectory: Trajectory) -> None:
        changes = changes_of(trajectory)
        self._console.print(Text("\nthe world, end against start", "bold"))
        self._console.print(changes_table(changes) if changes else Text("no row is another"))

    def _show_findings(self, trajectory: Trajectory) -> bool:
        """The findings of the latest verdict that has any; gives whether there are."""
        found = [judged.findings for judged in trajectory.judged if judged.findings]
        if not found:
            self._say("No verifier has found anything: this episode has no verdict with findings.")
            return False
        self._console.print(findings_table(found[-1]))
        return True

    def _show_whole(self, trajectory: Trajectory) -> None:
        """The texts of the episode, however long."""
        texts = [("instruction", trajectory.started.instruction)]
        for number, step in enumerate(trajectory.steps, 1):
            texts.append((f"turn {number}", step.reply.text))
            calls = step.decision.calls if isinstance(step.decision, Act) else ()
            for index, call in enumerate(calls):
                arguments = msgspec.json.encode(call.arguments).decode()
                texts.append((f"turn {number} calls", f"{call.name} {arguments}"))
                if index < len(step.results):
                    texts.append((f"turn {number} is given", _told(step.results[index])))
        if trajectory.ended is not None:
            texts.append(("answer", trajectory.ended.answer))
        for title, text in texts:
            if text.strip():
                self._console.print(Panel(Text(printable(text)), title=title, title_align="left"))

    def _show_verdicts(self, episode: str, verdicts: Sequence[Judged]) -> None:
        self._say(f"{episode}:" if verdicts else f"{episode} has no verdict.")
        for judged in verdicts:
            said = judged.label or f"unjudged: {judged.unjudged or 'no reason was given'}"
            self._say(f"  {judged.judge}: {said}")

    def _say(self, text: str) -> None:
        self._console.print(Text(printable(text)))


def _told(result: ToolResult) -> str:
    return result.text if result.error is None else f"{result.error}: {result.text}"
