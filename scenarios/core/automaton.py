"""What an automaton answers: a pure function of what it has said and of what it hears.

The rules, in order:

    1. It says every line that is asked for now: it was not said before, the agent's words contain
       one of its phrases, and the lines that must come first were said.
    2. A question for a line that was said gets that line again.
    3. A line that waits for no phrase is said next, one at a time.
    4. Any other question gets `unsure`.
    5. Otherwise the user says `closing` and ends the talk; so it does after `patience` answers by
       rules 2 and 4.

So the talk is the same when it is repeated from a log, and all of its states can be visited.
"""

import re
from collections.abc import Iterator
from functools import cache

import msgspec

from rehearsal_room.scenarios.core.dialogue import UserAutomaton, UserCall, UserLine


class TalkState(msgspec.Struct, frozen=True):
    """How far a talk is."""

    used: frozenset[str] = frozenset()  # ids of the lines that were said
    num_idle: int = 0  # answers that brought nothing new
    ended: bool = False


class Heard(msgspec.Struct, frozen=True):
    """The user's answer to the agent's words."""

    text: str
    lines: tuple[UserLine, ...] = ()  # those that were said for the first time
    ended: bool = False

    @property
    def calls(self) -> tuple[UserCall, ...]:
        """The calls that the user makes before it speaks."""
        return tuple([call for line in self.lines for call in line.calls])


START = TalkState()


def answer_to(user: UserAutomaton, state: TalkState, text: str) -> tuple[TalkState, Heard]:
    """What the user answers to the agent's words, and the state after that."""
    open_lines = [line for line in user.lines if _is_open(line, state)]
    new = [line for line in open_lines if is_asked(line, text)]
    if not new and not _repeated(user, state, text):
        new = [line for line in open_lines if not line.asked][:1]
    if new:
        used = state.used.union([line.id for line in new])
        words = " ".join([line.text for line in new])
        return TalkState(used, state.num_idle), Heard(words, tuple(new))
    idle = _repeated(user, state, text) or (user.unsure if "?" in text else "")
    if idle and state.num_idle < user.patience:
        return TalkState(state.used, state.num_idle + 1), Heard(idle)
    return TalkState(state.used, state.num_idle, ended=True), Heard(user.closing, ended=True)


def is_asked(line: UserLine, text: str) -> bool:
    """Whether the agent's words contain one of a line's phrases.

    Example: is_asked(UserLine("day", "On Friday.", asked=("deliver*",)), "When to deliver it?")
    """
    return bool(line.asked) and _pattern(line.asked).search(text) is not None


def reachable(user: UserAutomaton) -> Iterator[tuple[TalkState, str, Heard, TalkState]]:
    """Visit all states of an automaton: every answer (before, words, answer, after) that some words
    of an agent can lead to.

    The words are: nothing that is asked for, as a statement and as a question; the phrases of each
    line; and the phrases of all lines together.
    """
    asked = [f"{line.asked[0].rstrip('*')}?" for line in user.lines if line.asked]
    words = ("…", "…?", *asked, " ".join(asked))
    seen, waiting = {START}, [START]
    while waiting:
        before = waiting.pop()
        for text in dict.fromkeys(words):
            after, heard = answer_to(user, before, text)
            yield before, text, heard, after
            if after not in seen and not after.ended:
                seen.add(after)
                waiting.append(after)


def _is_open(line: UserLine, state: TalkState) -> bool:
    return line.id not in state.used and state.used.issuperset(line.after)


def _repeated(user: UserAutomaton, state: TalkState, text: str) -> str:
    """The lines that were said and are asked for again; empty: none."""
    if "?" not in text:
        return ""
    return " ".join(
        [line.text for line in user.lines if line.id in state.used and is_asked(line, text)]
    )


@cache
def _pattern(phrases: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(_phrase, phrases)), re.IGNORECASE)


def _phrase(phrase: str) -> str:
    words = r"\s+".join(map(re.escape, phrase.rstrip("*").split()))
    return rf"(?<!\w){words}" + ("" if phrase.endswith("*") else r"(?!\w)")
