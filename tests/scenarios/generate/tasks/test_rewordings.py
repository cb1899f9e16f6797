"""Rewordings: another wording of an instruction keeps its facts, names, numbers and conditions."""

import pytest

from rehearsal_room.scenarios.generate.tasks.rewordings import rewording_fault

ORIGINAL = (
    "Ana Lopez (ana.lopez@pinemail.example) wants order R-407131 sent to Graz, not Vienna, if it "
    "has not left before 4 March. Refund $42.50 only for the tent."
)
SAME = (
    "If R-407131 hasn't left before 4 March, please send that order to Graz and not to Vienna, as "
    "Ana Lopez asks. Only the tent gets a refund, $42.50. (Mail: ana.lopez@pinemail.example)"
)


def test_the_same_in_other_words_is_accepted() -> None:
    """Other sentences in another order, with every fact and condition."""
    assert rewording_fault(ORIGINAL, SAME) == ""
    assert rewording_fault(ORIGINAL, ORIGINAL) == ""


def test_a_capital_after_a_value_that_ends_a_sentence_is_no_name() -> None:
    """The period behind a number closes the sentence."""
    assert rewording_fault("Could you please close R-407131?", "It is R-407131. Close it.") == ""
    assert "'Graz'" in rewording_fault("Please close R-407131.", "Close R-407131 Graz.")


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("$42.50", "$45.20", "it leaves out '$42.50'"),
        ("R-407131", "the order", "it leaves out 'R-407131'"),
        ("Ana Lopez asks", "Anna Lopez asks", "it adds 'Anna'"),
        ("Graz", "Linz", "it leaves out 'Graz'"),
        ("4 March", "4 May", "it leaves out 'March'"),
        ("as Ana Lopez", "as Ana Lopez and Ben", "it adds 'Ben'"),
        ("If R-407131 hasn't left before 4 March, please send", "Send R-407131 (4 March),", "'if'"),
        ("Only the tent", "The tent", "says 'only'"),
        ("ana.lopez@pinemail.example", "ana.lopez@example.org", "it leaves out 'ana.lopez@"),
    ],
)
def test_a_wording_with_another_meaning_is_refused(old: str, new: str, fault: str) -> None:
    """A lost, changed or new fact, and a lost condition, are named."""
    assert old in SAME
    assert fault in rewording_fault(ORIGINAL, SAME.replace(old, new))


@pytest.mark.parametrize(
    ("wording", "fault"), [("", "empty"), (f"{SAME} {SAME}", "times the words")]
)
def test_an_empty_or_much_longer_wording_is_refused(wording: str, fault: str) -> None:
    """A wording has about as many words as the original."""
    assert fault in rewording_fault(ORIGINAL, wording)


@pytest.mark.parametrize(
    ("added", "fault"),
    [
        ("Do it unless it is over a month old.", "'unless'"),
        ("Leave out every spare part.", "'every'"),
        ("Take the cheapest way.", "'cheapest'"),
        ("It may cost below ten.", "'below'"),
        ("Do that once the bill is settled.", "'once'"),
        ("Swap the labels in the same go.", "'swap'"),
    ],
)
def test_a_condition_that_the_original_lacks_is_refused(added: str, fault: str) -> None:
    """A wording adds no condition, exception or superlative."""
    original = "Ana Lopez wants order R-407131 sent to Graz. Please write to her that it is done."
    assert rewording_fault(original, f"Hi. {original}") == ""
    assert fault in rewording_fault(original, f"{original} {added}")


def test_a_wording_that_quotes_its_correction_is_refused() -> None:
    """The facts that a correction names do not count in a wording that repeats the correction."""
    original = "Please send order R-407131 of Ana Lopez to Graz and write to her that it is done."
    said = "That does not say the same: it leaves out 'Ana', 'Lopez'. Reword the request again."
    quoting = "You say it leaves out 'Ana', 'Lopez'. Please send R-407131 to Graz, I guess."
    assert rewording_fault(original, quoting) == ""
    assert "quotes" in rewording_fault(original, quoting, said)
    assert rewording_fault(original, f"Hello. {original}", said) == ""
