"""What an automaton answers, and what the gate finds wrong with one."""

import pytest

from rehearsal_room.judge.gate.checks.dialogues import early_disclosures, talk_faults
from rehearsal_room.scenarios.core.automaton import START, TalkState, answer_to, is_asked, reachable
from rehearsal_room.scenarios.core.dialogue import UserAutomaton, UserLine
from rehearsal_room.scenarios.format import Call, Task, Utterance

DAY = UserLine("day", "Friday would be best.", asked=("which day", "when"), values=("Friday",))
HOUR = UserLine("hour", "At nine.", asked=("time", "hour*"), after=("day",), values=("nine",))
MIND = UserLine("mind", "Make it Monday after all.", "change", after=("day",), values=("Monday",))
USER = UserAutomaton((DAY, HOUR, MIND))
TASK = Task(
    id="move",
    instruction="Please move my appointment.",
    difficulty="simple",
    kind="change",
    answer="It is on Monday at nine.",
    oracle=(Call("look_up"), Call("move", {"day": "Monday", "hour": "nine"})),
    user=USER,
    utterances=(
        Utterance(1, "On which day?"),
        Utterance(1, "And at what time?"),
        Utterance(1, "I am moving it to Friday."),
    ),
)


def _answers(user: UserAutomaton, *texts: str) -> list[str]:
    state, found = START, []
    for text in texts:
        state, heard = answer_to(user, state, text)
        found.append(heard.text)
    return found


def test_a_line_comes_when_it_is_asked_for() -> None:
    assert _answers(USER, "On WHICH  day?") == ["Friday would be best."]


def test_two_questions_get_two_answers() -> None:
    user = UserAutomaton((DAY, UserLine("where", "In Lund.", asked=("where",))))
    assert _answers(user, "When, and where?") == ["Friday would be best. In Lund."]


def test_a_line_waits_for_those_that_come_before_it() -> None:
    assert _answers(USER, "What time?", "When?", "At what hours?") == [
        "That's all I can tell you.",
        "Friday would be best.",
        "At nine.",
    ]


def test_a_line_without_phrases_comes_by_itself_once_nothing_is_asked() -> None:
    assert _answers(USER, "When?", "It is done.", "Now it is Monday.") == [
        "Friday would be best.",
        "Make it Monday after all.",
        "Thank you.",
    ]


def test_a_repeated_question_gets_the_same_line() -> None:
    assert _answers(USER, "When?", "When, please?") == ["Friday would be best."] * 2


def test_patience_ends() -> None:
    user = UserAutomaton((DAY,), patience=2)
    assert _answers(user, *["Anything else?"] * 3) == ["That's all I can tell you."] * 2 + [
        "Thank you."
    ]


@pytest.mark.parametrize(
    ("phrase", "text", "asked"),
    [
        ("deliver*", "When is it delivered?", True),
        ("day", "Which days?", False),
        ("phone number", "the phone\nnumber", True),
        ("12B", "Seat 12b is free", True),
    ],
)
def test_phrases_are_whole_words(phrase: str, text: str, asked: bool) -> None:
    assert is_asked(UserLine("x", "y", asked=(phrase,)), text) is asked


def test_all_states_are_visited() -> None:
    states = {after.used for _, _, _, after in reachable(USER)}
    assert states == {
        frozenset(one)
        for one in ((), ("day",), ("day", "hour"), ("day", "mind"), ("day", "hour", "mind"))
    }
    assert all(isinstance(before, TalkState) for before, *_ in reachable(USER))


def test_a_sound_talk_has_no_fault() -> None:
    assert list(talk_faults(TASK, USER)) == []


@pytest.mark.parametrize(
    ("user", "instruction", "fault"),
    [
        (UserAutomaton((DAY,)), "Move it to Friday.", "the instruction has the value 'Friday'"),
        (
            UserAutomaton((DAY,), unsure="Perhaps Friday."),
            "Move it.",
            "'Perhaps Friday.' has the value 'Friday' of line 'day'",
        ),
        (
            UserAutomaton((UserLine("day", "Soon.", asked=("when",), values=("Friday",)),)),
            "Move it.",
            "line 'day' does not say its value 'Friday'",
        ),
    ],
)
def test_an_early_disclosure_is_found(user: UserAutomaton, instruction: str, fault: str) -> None:
    assert any(fault in one for one in early_disclosures(instruction, user))


def _replaced(**fields: object) -> Task:
    return type(TASK)(**{name: getattr(TASK, name) for name in TASK.__struct_fields__} | fields)


@pytest.mark.parametrize(
    ("task", "fault"),
    [
        (_replaced(utterances=TASK.utterances[:1]), "the oracle never hears line 'hour'"),
        (
            _replaced(utterances=tuple(Utterance(2, one.text) for one in TASK.utterances)),
            "call 2, move, has 'nine' before line 'hour' is said",
        ),
        (_replaced(answer="Is Monday right?"), "the user does not end the talk"),
        (
            _replaced(utterances=(*TASK.utterances, Utterance(1, "Good."))),
            "the user ends the talk when the oracle says 'Good.'",
        ),
        (
            _replaced(kind="question", oracle=(Call("look_up"),)),
            "the question can be answered unasked",
        ),
    ],
)
def test_a_fault_of_the_oracle_is_found(task: Task, fault: str) -> None:
    assert any(fault in one for one in talk_faults(task, USER))


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ((), "its user has no line"),
        ((DAY, DAY), "two lines have the id 'day'"),
        ((UserLine("a", "b", after=("c",)),), "comes after 'c', which is not a line"),
        ((UserLine("a", "b", after=("a",)),), "line 'a' can never be said"),
    ],
)
def test_a_fault_of_the_lines_is_found(lines: tuple[UserLine, ...], fault: str) -> None:
    user = UserAutomaton(lines)
    assert any(fault in one for one in talk_faults(_replaced(user=user), user))
