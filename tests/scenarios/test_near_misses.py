"""Reading near misses: what is read, and a sentence for every fault."""

from pathlib import Path

import pytest

from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.format import NEAR_MISSES, Call
from rehearsal_room.scenarios.near_misses import NearMiss, near_misses_of
from tests.support.ledger_world import ledger

MISS = """
[[near_miss]]
task = "open"
why = "opens another account"
label = "agent_error"
calls = [ { name = "open_account", arguments = { name = "pretty" } } ]
answer = "Opened."
"""
_START = "line 2: near miss of task 'open': "

_FAULTS = {  # fault: (a text of MISS, the text instead, the sentence after the file's name)
    "no TOML": ("[[near_miss]]", "[[near_miss", "not valid TOML: "),
    "an unknown task": (
        '"open"',
        '"opne"',
        "line 2: near miss of task 'opne': task: the package has no such task; did you mean ",
    ),
    "no task": (
        'task = "open"\n',
        "",
        "line 2: near_miss[0]: object missing required field `task`",
    ),
    "the label of success": (
        "agent_error",
        "completed",
        f"{_START}label: 'completed' is not one of 'agent_error', 'environment_error', 'partially",
    ),
    "no answer": ('answer = "Opened."\n', "", f"{_START}object missing required field `answer`"),
    "an unknown field": ("why =", "because =", f"{_START}object contains unknown field `because`"),
    "a blank reason": ("opens another account", " ", f"{_START}why: must be one line"),
    "an argument": ('"pretty"', "inf", f"{_START}calls[0].arguments.name: inf has no form in JSON"),
}


@pytest.mark.parametrize("fault", _FAULTS)
def test_a_fault_is_named(tmp_path: Path, fault: str) -> None:
    """Every fault is one sentence with the file, the line, the task and the field."""
    old, new, sentence = _FAULTS[fault]
    assert old in MISS
    scenario = ledger(tmp_path)
    path = tmp_path / NEAR_MISSES
    path.write_text(MISS.replace(old, new, 1))
    with pytest.raises(PackageError) as caught:
        near_misses_of(scenario)
    assert str(caught.value).startswith(f"{path}: {sentence}")
    assert "\n" not in str(caught.value)


def test_a_wrong_turn_has_calls_or_an_answer(tmp_path: Path) -> None:
    """A near miss without calls and without an answer is refused: that is doing nothing."""
    scenario = ledger(tmp_path)
    head, _ = MISS.split("calls")
    (tmp_path / NEAR_MISSES).write_text(f'{head}answer = ""\n')
    with pytest.raises(PackageError, match="it has neither calls nor an answer"):
        near_misses_of(scenario)


def test_reading_near_misses(tmp_path: Path) -> None:
    """The file is optional; where it is there, it belongs to the package's digest."""
    without = ledger(tmp_path)
    assert near_misses_of(without) == ()
    (tmp_path / NEAR_MISSES).write_text(MISS)
    scenario = ledger(tmp_path)
    call = Call("open_account", {"name": "pretty"})
    miss = NearMiss("open", "opens another account", "agent_error", "Opened.", (call,))
    assert near_misses_of(scenario) == (miss,)
    assert scenario.digest != without.digest
