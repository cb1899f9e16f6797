"""Where an answer contradicts the accepted one in words.

The texts of this file are ours; docs/soundness.md has the figures for texts by a writer who had not
seen the parser.
"""

import pytest

from rehearsal_room.judge.code.actions import actions
from rehearsal_room.judge.code.claims import contradictions, is_refused
from rehearsal_room.judge.code.stated.sentences import Things

ASKED = "Please settle Mira Holt's requests RQ-11 and RQ-12. RQ-13 can wait if it must."
ACCEPTED = (
    "RQ-11 and RQ-12 are approved, 84.50 EUR in total, and go to Mira Holt. "
    "I couldn't approve RQ-13: it was made 40 days ago."
)
WRITES = "approve request"


def found(answer: str, accepted: str = ACCEPTED, *, writes: bool = True) -> list[str]:
    things = Things([accepted, ASKED], ["RQ-11", "RQ-12"])
    done = actions(WRITES)
    return list(contradictions(accepted, answer, things, asked=ASKED, writes=writes, done=done))


@pytest.mark.parametrize(
    "answer",
    [
        ACCEPTED,
        "RQ-12 and RQ-11 are approved, 84.50 EUR in total, and go to Mira Holt. "
        "I couldn't approve RQ-13: it was made 40 days ago.",
        "Approved:\n- RQ-11\n- RQ-12\n\nNot approved:\n- RQ-13: forty days old",
        "I approved two of the three (RQ-11, RQ-12) for 84,50 €. RQ-13 is too old at 40 days.",
        "Mira Holt gets €84.50, since RQ-12 and RQ-11 went through. RQ-13 had to stay as it was.",
    ],
)
def test_the_same_in_other_words_contradicts_nothing(answer: str) -> None:
    """Other orders, forms of values, lists and words."""
    assert found(answer) == []


@pytest.mark.parametrize(
    ("answer", "sign"),
    [
        (ACCEPTED.replace("RQ-12", "RQ-0").replace("RQ-13", "RQ-12"), "rq-13"),
        (ACCEPTED.replace("84.50", "95.50"), "states 95.50 eur in place of 84.50 eur"),
        (ACCEPTED.replace("Mira Holt", "Jon Sand"), "names jon sand in place of mira holt"),
        (ACCEPTED.replace("approved", "rejected"), "rejected"),
        ("RQ-11, RQ-12 and RQ-13 are approved.", "rq-13"),
        ("I couldn't approve any of them.", "says that nothing was done"),
        ("I approved neither of RQ-11 and RQ-12.", "is as it was: 'i approved neither'"),
        ("RQ-11 and RQ-12 are approved for Mira Holt, 95.50 EUR.", "95.50 eur in place of 84.50"),
        (f"{ACCEPTED} I also raised the budget of the harbour office.", "claims a further deed"),
    ],
)
def test_a_false_answer_has_a_sign(answer: str, sign: str) -> None:
    """Exchanged records, values, persons and verbs; no exception; nothing done."""
    assert sign in "; ".join(found(answer))


@pytest.mark.parametrize(
    ("answer", "sign"),
    [
        ("I have not approved RQ-11.", "was not done"),
        ("I approved nothing.", "nothing was done"),
        ("No request was approved.", "nothing was done"),
        ("RQ-11 needs a manager, so I left it.", "is as it was"),
    ],
)
def test_a_denial_has_a_sign_where_the_accepted_answer_has_none(answer: str, sign: str) -> None:
    """Only where the oracle writes: a question changes nothing."""
    accepted = "RQ-11 is approved."
    assert sign in "; ".join(found(answer, accepted))
    assert sign not in "; ".join(found(answer, accepted, writes=False))


def test_two_values_in_exchanged_roles_have_a_sign() -> None:
    """In a sentence that is built like the accepted one."""
    accepted = "The order has 3 × Ramipril and 10 × Gauze."
    exchanged = "The order has 10 × Ramipril and 3 × Gauze."
    assert "where the accepted answer says" in "; ".join(found(exchanged, accepted))


def test_values_of_two_records_that_change_places_have_a_sign() -> None:
    """The records say which is whose, also where the accepted answer lists them in two rows."""
    accepted = "Lard and Rapeseed oil were too cheap; they're now €36.57 and €39.96."
    things = Things([accepted], records=["Lard", "Rapeseed oil"])
    owned = {"lard": frozenset({"36.57"}), "rapeseed oil": frozenset({"39.96"})}

    def signs(answer: str) -> str:
        signs_of = contradictions(
            accepted, answer, things, asked="", writes=True, done=actions("update"), owned=owned
        )
        return "; ".join(signs_of)

    assert signs("Rapeseed oil is €39.96 now, and Lard €36.57.") == ""
    assert "not the other way round" in signs("Lard is €39.96 now, and Rapeseed oil €36.57.")


@pytest.mark.parametrize(
    ("accepted", "answer", "sign"),
    [
        (
            "RQ-1 can't be approved because it's out of date, and RQ-2 is above my limit.",
            "RQ-1 is above my limit, and RQ-2 is out of date.",
            "of rq-1, and not of rq-2",
        ),
        (
            "I didn't do that: Raymond Ellis has waited longer than Frances Little.",
            "I didn't do that: Frances Little has waited longer than Raymond Ellis.",
            "compares frances little with raymond ellis",
        ),
    ],
)
def test_two_things_that_change_places_have_a_sign(accepted: str, answer: str, sign: str) -> None:
    """Reasons, and the sides of a comparison, also in a refusal."""
    things = Things([accepted])
    ways = {"asked": "", "writes": False, "done": frozenset[int](), "is_refusal": True}
    assert list(contradictions(accepted, accepted, things, **ways)) == []  # type: ignore[arg-type]
    assert sign in "; ".join(contradictions(accepted, answer, things, **ways))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "is_met"),
    [
        ("RQ-11 and RQ-12 are approved. RQ-13 needs a manager.", True),
        ("RQ-11 and RQ-12 went through. RQ-13 is still open.", True),
        ("RQ-11, RQ-12 and RQ-13 went through.", False),
        ("RQ-11 and RQ-12 are approved. So is RQ-13, although it was made 40 days ago.", False),
        (
            "RQ-11 and RQ-12 are approved. RQ-13 is approved as well: it was made 40 days ago.",
            False,
        ),
        ("RQ-11 and RQ-12 are approved.", False),
    ],
)
def test_a_part_is_refused_where_the_answer_speaks_of_it_and_not_as_done(
    answer: str, is_met: bool
) -> None:
    """The rows prove that it was not done; words that count it among what was done are a lie."""
    assert is_refused(ACCEPTED, answer, Things([ACCEPTED, ASKED])) == is_met


def test_a_title_in_place_of_the_accepted_one_has_a_sign() -> None:
    """A title of the case that stands beside the accepted ones replaces none."""
    accepted = "Mario Lin no longer has access to “Cleaning checklist”."
    other = "Mario Lin no longer has access to “Noise limits”."
    assert "names noise limits in place of cleaning checklist" in found(other, accepted)
    beside = "“Noise limits” was never shared; Mario Lin is off “Cleaning checklist”."
    assert not [sign for sign in found(beside, accepted) if sign.startswith("names ")]


MERGED = "I merged 212 into 211. The Ada Roth in Galway (213) is somebody else."
WORKS = "The repair of claim 70423 is with Harbour Motor Works for EUR 2,565.00."
ON_HOLD = "I put order 4126 on hold for $458.00. I did not cancel or refund anything."


@pytest.mark.parametrize(
    ("accepted", "right", "false"),
    [
        (
            MERGED,
            "212 is merged into 211. Ada Roth in Galway (213) is a different person and was not "
            "merged.",
            "212 is merged into 211. It was not merged.",
        ),
        (MERGED, "I merged 212 into 211 and left 213 out of it.", "I left 212 as it was."),
        (
            WORKS,
            "The repair of claim 70423 is with Harbour Motor Works in Cork for EUR 2,565.00.",
            "The repair of claim 70423 is with Dublin Motor Works in Cork for EUR 2,565.00.",
        ),
        (
            "I've asked for the proof and the inventory.",
            "I've asked for the proof and the inventory. The photos have already been received, so "
            "I didn't request those.",
            "The proof and the inventory were already received, so I didn't request those.",
        ),
        (
            ON_HOLD,
            "Order 4126 is on hold ($458.00). Nothing was cancelled or refunded.",
            "Order 4126 is on hold. The $458.00 has been returned to her card.",
        ),
    ],
)
def test_what_an_answer_denies_is_of_the_same_thing(accepted: str, right: str, false: str) -> None:
    """Of another one it contradicts nothing, and neither does a place behind a name."""
    things = Things([accepted, "Ada Roth of Galway", "Dublin Motor Works", "in Cork"])
    done = actions("approve merge hold request")

    def signs(answer: str) -> list[str]:
        return list(contradictions(accepted, answer, things, asked="", writes=True, done=done))

    assert signs(right) == []
    assert signs(false) != []
