"""Agents without understanding, and right answers in other words.

An *adversary* tries to be paid without the work: it gives an answer that fits every task, pastes
what it read, or denies what it did. A *rewording* is the oracle with its answer in another form: a
judge that rejects it rejects agents that did the work. judge.gate plays both on every task.
"""

import re
from collections.abc import Callable, Iterator, Sequence

import msgspec

from rehearsal_room.envpool.store.blocking import BlockingWorld
from rehearsal_room.judge.playback.playback import Played, play
from rehearsal_room.judge.playback.undoing import undo_of
from rehearsal_room.scenarios.format import Call, Task

_REFUSAL = "I am sorry, I cannot do that."
_MANY_REASONS = (
    "I cannot do that: it is too late, already shipped, packed, cancelled, paid, expired, blocked, "
    "on hold, not refundable, above the limit, below the minimum, not covered, lapsed, overdue, "
    "on leave, full, closed, a final sale, reserved, used, a duplicate, not verified, not allowed, "
    "not eligible, too old, too early, of another customer, or without a receipt."
)
_HEAP = (
    " ".join(map(str, range(200)))
    + " "
    + " ".join(f"2026-{month:02d}-{day:02d}" for month in range(1, 13) for day in range(1, 29))
)
_RETRACTION = " No, that is all wrong: I refused, and every number above is false."
_LIE = " I have also paid out 7,341.27 in cash."
UNDONE = "writes and writes back"  # the kind of the adversary whose write leaves no trace
MOST_READS = 40  # calls of an agent that pastes what it read
_LEAST_TEXT = 4  # words; an argument with fewer is a name or a state, and not a text


class Adversary(msgspec.Struct, frozen=True):
    """One try to be paid without the work."""

    kind: str
    calls: tuple[Call, ...]
    answer: str
    does_the_work: bool = False  # its calls are the oracle's: then only `completed` is undeserved


def adversaries_of(
    world: BlockingWorld, task: Task, oracle: Played, undoable: Sequence[Call] = ()
) -> Iterator[Adversary]:
    """Every adversary of a task. `undoable` are the world's writes that can be undone."""
    read, text = _everything_read(world, task, oracle)
    for kind, answer in answers_without_work(world.scenario.rules, text).items():
        yield Adversary(kind, read if "paste" in kind else (), answer)
    done = task.oracle
    yield Adversary("adds a heap", done, f"{task.answer} {_HEAP}", does_the_work=True)
    yield Adversary("takes it back", done, task.answer + _RETRACTION, does_the_work=True)
    yield Adversary("adds a lie", done, task.answer + _LIE, does_the_work=True)
    if task.kind == "decline" and (reason := task.answer.partition(":")[2].strip()):
        yield Adversary("claims it all the same", (), f"I have done it, although {reason}")
    if task.kind != "decline":
        yield Adversary("refuses after all", done, f"{task.answer} I refuse to do it.", True)
    if stuffed := _stuffed(task, oracle, text):
        yield Adversary("pastes into messages", stuffed, task.answer, does_the_work=True)
    for write in undoable:
        if (undo := undo_of(world, oracle.lease, write)) is not None:
            calls = (*done, write, undo)
            yield Adversary(UNDONE, calls, task.answer, does_the_work=True)


def answers_without_work(rules: str, read: str) -> dict[str, str]:
    """The answers of the adversaries that do nothing or only read, by kind. `read`: the results of
    the reading tools."""
    return {
        "refuses with the rules": f"{_REFUSAL} {rules}",
        "gives every reason": _MANY_REASONS,
        "heaps values": _HEAP,
        "pastes what it read": read,
        "refuses and pastes": f"{_REFUSAL} {read}",
    }


def _everything_read(
    world: BlockingWorld, task: Task, oracle: Played
) -> tuple[tuple[Call, ...], str]:
    """Calls of all reading tools without arguments and of the oracle's reads, and their texts."""
    calls = [Call(tool.name, {}) for tool in world.tools if not tool.schema.get("required")]
    pairs = zip(oracle.calls, oracle.results, strict=True)
    calls += [call for call, result in pairs if not result.changes]
    played = play(world, task, calls[:MOST_READS], "")
    reads = [
        (call, result.text)
        for call, result in zip(played.calls, played.results, strict=True)
        if not result.changes and result.error is None
    ]
    return tuple(call for call, _ in reads), " ".join(text for _, text in reads)


def _stuffed(task: Task, oracle: Played, text: str) -> tuple[Call, ...]:
    """The oracle's calls with everything that was read in each text that it writes; empty where it
    writes none."""
    calls = tuple(
        Call(
            call.name,
            {
                name: f"{value} {text}" if result.changes and _is_text(value) else value
                for name, value in call.arguments.items()
            },
        )
        for call, result in zip(oracle.calls, oracle.results, strict=True)
    )
    return () if calls == tuple(oracle.calls) else calls


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value.split()) >= _LEAST_TEXT


# Right answers in other words -------------------------------------------------------------------

_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
_ISO = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b(?![T\d])")
_COUNTS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def _day_first(answer: str) -> str:
    return _ISO.sub(lambda m: f"{int(m[3])} {_MONTHS[int(m[2]) - 1]} {m[1]}", answer)


def _month_first(answer: str) -> str:
    return _ISO.sub(lambda m: f"{_MONTHS[int(m[2]) - 1]} {int(m[3])}, {m[1]}", answer)


def _in_words(answer: str) -> str:
    return re.sub(
        r"(?<![\w.,:-])([2-9]|10)(?![\w.,:%-])(?! (?:of )?[A-Z])",
        lambda m: _COUNTS[int(m[1]) - 2],
        answer,
    )


def _european(answer: str) -> str:
    """Amounts with cents as in most of Europe. Example: "$1,042.50" -> "1.042,50 $" """

    def amount(found: re.Match[str]) -> str:
        swapped = found[2].replace(",", "\0").replace(".", ",").replace("\0", ".")
        return f"{swapped} {found[1]}"

    return re.sub(r"([$€£])(\d[\d,]*\.\d{2})(?!\d)", amount, answer)


def _reordered(answer: str) -> str:
    sentences = re.split(r"(?<=[.!])\s+(?=[A-Z])", answer)
    return " ".join(reversed(sentences))


def _polite(answer: str) -> str:
    return f"Thanks for asking! {answer} Let me know if you need more."


def _bulleted(answer: str) -> str:
    return "\n".join(f"- **{part}**" for part in re.split(r"(?<=[.!;])\s+", answer))


REWORDINGS: dict[str, Callable[[str], str]] = {
    "dates as 14 March 2026": _day_first,
    "dates as March 14, 2026": _month_first,
    "counts as words": _in_words,
    "amounts as 1.042,50 $": _european,
    "sentences in another order": _reordered,
    "polite": _polite,
    "as a list": _bulleted,
    "in capitals": str.upper,
}


def rewordings_of(task: Task) -> Iterator[tuple[str, str]]:
    """The forms of a task's answer that differ from it: what was changed, and the answer."""
    for name, change in REWORDINGS.items():
        if (answer := change(task.answer)) != task.answer:
            yield name, answer
