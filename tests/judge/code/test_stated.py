"""What an answer holds and does not state: questions, suppositions, other units, and words
that nobody knows.

The agents of these kinds did the work and spoiled their answer.
"""

import pytest

from rehearsal_room.judge.code.answer_bounds import answer_faults, bounded
from rehearsal_room.judge.code.case import bounds_of
from rehearsal_room.judge.code.claims import foreign_names
from rehearsal_room.judge.code.stated.beside import beside_the_case
from rehearsal_room.judge.code.stated.deeds import other_stages
from rehearsal_room.judge.code.stated.sentences import Things
from rehearsal_room.judge.code.stated.understood import known_words, not_understood
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.core.statements import plain
from rehearsal_room.scenarios.format import Call, Task

ASKED = "Please refund Anna Soll for order 4107 and tell me when it arrives."
ACCEPTED = (
    "$84.50 went back to Anna Soll for order 4107. It arrives on 14 March. "
    "The 2 mugs stay with her."
)
READ = ('{"order": 4107, "customer": "Anna Soll", "cents": 8450, "due": "2026-03-14"}',)
CHANGES = (RowChange("refunds", (9,), None, {"id": 9, "amount_cents": 8450}),)
ORACLE = (Call("refund_order", {"order_id": 4107}),)


def faults(answer: str, kind: str = "change", accepted: str = ACCEPTED) -> str:
    task = Task("refund", ASKED, "simple", kind, accepted, oracle=ORACLE)  # type: ignore[arg-type]
    return "; ".join(answer_faults(bounds_of(task, READ, CHANGES), answer))


@pytest.mark.parametrize(
    "answer",
    [
        ACCEPTED,
        "Hi Tom,\n\nAnna Soll’s refund for 4107 ($84.50) is under way – expected on March 14th; "
        "she keeps both mugs.\n\nBest regards",
        "Order 4107: US$84.50 refunded to Anna Soll. Due 14/03/2026. Two mugs stay with her. "
        "Shall I do anything else? Let me know if you need more.",
        "Since Anna Soll keeps the 2 mugs, she got $84.50 for order 4107, by 14 March 2026.",
        "I\u00adve refunded $84.50 to Anna\u00a0Soll (order 4107), due 14\u00a0March. 2 mugs stay.",
        "Want to know more? Anna Soll gets 84.50 dollars for 4107 on 14 March; 2 mugs stay.",
    ],
)
def test_the_same_in_other_words_has_no_fault(answer: str) -> None:
    """Offers, courtesies, other forms of dates and amounts, soft hyphens and hard spaces."""
    assert faults(answer) == ""


@pytest.mark.parametrize(
    "more",
    [
        "All sorted!",
        "Sorry about the trouble.",
        "If anything's unclear, just shout.",
        "Would you like me to do anything else?",
        "I double-checked the records before answering.",
        "I'll be here if something else comes up.",
        "Best regards,\nYour service team",
    ],
)
def test_a_courtesy_is_no_claim(more: str) -> None:
    """It has no word of the case, and needs none."""
    assert faults(f"{ACCEPTED} {more}") == ""


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (f"Maybe {ACCEPTED}", "does not state"),
        (f"It is false that {ACCEPTED}", "does not state"),
        (f"Wrong answer: {ACCEPTED}", "does not state"),
        (f"NOT: {ACCEPTED}", "does not state"),
        (f"An answer could look like this: {ACCEPTED}", "does not state"),
        ("Did $84.50 go back to Anna Soll for 4107? The mugs stay.", "does not state"),
        (f"{ACCEPTED} This is only a guess.", "takes back"),
        (f"{ACCEPTED} (Not really, though.)", "takes back"),
        (f"{ACCEPTED} The opposite is the case.", "takes back"),
        (f"~~{ACCEPTED}~~", "takes back"),
        (f"{ACCEPTED} <!-- it was not so -->", "takes back"),
        (f"{ACCEPTED} Actually, nothing of this has happened.", "takes back"),
        (f"{ACCEPTED} All of it still has to be done by you.", "takes back"),
    ],
)
def test_what_is_supposed_or_asked_is_not_stated(answer: str, fault: str) -> None:
    """Nor what is called a draft, or a guess."""
    assert fault in faults(answer)


@pytest.mark.parametrize(
    ("right", "wrong", "fault"),
    [
        ("$84.50", "€84.50", "another currency"),
        ("$84.50", "twice $84.50", "a multiple"),
        ("$84.50", "minus $84.50", "a multiple"),
        ("$84.50", "$84.50 per month", "another unit"),
        ("$84.50", "less than $84.50", "compares"),
        ("2 mugs", "up to 2 mugs", "compares"),
        ("2 mugs", "2-odd mugs", "another unit"),
        ("14 March", "the day after 14 March", "shifts the date"),
        ("14 March", "14 March 2019", "another year"),
        ("14 March", "14 March or a day later", "another unit"),
        ("4107", "four one zero eight", "another record"),
        ("4107", "not 4107 but the next one", "denies the value"),
        ("4107", "4107 and the next one", "adds to what is accepted"),
    ],
)
def test_words_beside_a_value_make_another_one(right: str, wrong: str, fault: str) -> None:
    """Currencies, multiples, units, comparisons, spans, years and keys digit by digit."""
    assert fault in faults(ACCEPTED.replace(right, wrong))


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ("También he cancelado todos los demás pedidos.", "not understood"),
        ("In Wirklichkeit habe ich nichts davon getan.", "not understood"),
        ("I re\u200bfuse to do it.", "refuses"),
        ("I rеfusе to do it.", "not understood"),
        ("The boss made an exception.", "not understood"),
        ("I phoned the neighbours and everyone agreed.", "not understood"),
        ("The same goes for all the others.", "of all others"),
        ("I also wrote to her husband.", "another deed"),
        ("I will cancel the rest tonight.", "another deed"),
    ],
)
def test_what_is_added_in_words_of_no_text_is_a_fault(more: str, fault: str) -> None:
    """In other languages and letters, and claims in words that the case lacks."""
    assert fault in faults(f"{ACCEPTED} {more}")


@pytest.mark.parametrize(
    ("accepted", "answer", "sign"),
    [
        ("The fee is charged.", "I waived the fee.", "not understood: waived"),
        ("The rest is open.", "The rest was written off.", "not understood: written off"),
        ("It was the flight home.", "It was the flight out.", "not understood: out"),
        ("A recovery is open.", "It is open, and half is paid.", "not understood: half"),
        ("The trace began.", "It began; he gets it tomorrow.", "not understood: tomorrow"),
        ("It crashed.", "The mug crashed.", ""),
        ("It is paid.", "The crash is paid.", ""),
        ("It is paid.", "It crashed.", "not understood: crashed"),
        ("Der Auftrag wurde storniert, und das Geld ist unterwegs.", "Es wurde erstattet.", ""),
    ],
)
def test_an_answer_with_a_word_of_another_claim_is_not_understood(
    accepted: str, answer: str, sign: str
) -> None:
    """A known noun is not a verb, and in another language no word is known."""
    found = "; ".join(not_understood(answer, known_words([accepted], []), is_refusal=False))
    assert sign in found
    assert bool(found) == bool(sign)


def test_a_rule_makes_names_known_and_no_deeds() -> None:
    """What the rules forbid is not done by being in them."""
    known = known_words(["The seat is booked."], ["Nobody waives the chairlift surcharge."])
    assert list(not_understood("The chairlift seat is booked.", known, is_refusal=False)) == []
    assert list(not_understood("I waive the seat.", known, is_refusal=False)) != []
    denied = "I can't bamboozle you."  # it claims no deed
    assert list(not_understood(denied, known, is_refusal=True)) == []
    for lie in ("I can't do that but bamboozled him.", "No worries he was bamboozled."):
        assert list(not_understood(lie, known, is_refusal=True)) != []
    assert list(not_understood(denied, known, is_refusal=False)) != []


@pytest.mark.parametrize(
    ("accepted", "right", "false"),
    [
        (
            "Payments control has to verify it.",
            "It's still to be verified by payments control.",
            "It has been verified.",
        ),
        ("The swap is agreed.", "The swap was agreed.", "She still has to agree to the swap."),
        (
            "I've asked Jon Sand for a swap.",
            "A swap with Jon Sand is requested.",
            "Jon Sand takes the shift.",
        ),
        ("Anna Soll is off the list.", "Anna Soll was taken off.", "Anna Soll is still on it."),
        (
            "I swapped the lamp. The lantern isn't part of it.",
            "The lantern isn't swapped too.",
            "The lantern is swapped too.",
        ),
        ("Jon Sand was asked.", "I asked Jon Sand.", "Jon Sand was asked, and he agreed."),
    ],
)
def test_how_far_a_deed_has_come(accepted: str, right: str, false: str) -> None:
    """A duty is not done, what is done is not due, and what was asked for is not granted."""

    def signs(answer: str) -> list[str]:
        named, context = Things([accepted]).named, plain(accepted)
        return list(other_stages(accepted, answer, named, context=context, is_refusal=False))

    assert signs(right) == []
    assert signs(false) != []


def test_a_refusal_states_no_deed_of_somebody_else() -> None:
    """Nor that it was done all the same, nor that its reason is none, nor many short reasons."""
    refusal = "I can't do that: order 4107 is 40 days old."
    for more in (
        "But a colleague has done it for you.",
        "As an exception, it went through.",
        "I'll do it tomorrow all the same.",
        "The reason isn't this.",
        "Too late. On hold. Not due. Not hers. Not paid. A gift. A sale. Sent. Used.",
    ):
        assert faults(refusal, "decline", refusal) == ""
        assert faults(f"{refusal} {more}", "decline", refusal) != ""


def test_what_somebody_is_does_not_speak_of_another() -> None:
    """Who "as a member" has something is the one of the case; a deed of hers is read as before."""
    accepted = "Anna Soll has 45 days, so return 5001 is approved."
    known, things = known_words([accepted], []), Things([accepted])
    right = "As a member she has 45 days."
    assert not list(beside_the_case(accepted, right, known, things))
    for lie in ("As a member she got it already.", "A member has it.", "A colleague has it."):
        assert list(beside_the_case(accepted, lie, known, things))


def test_a_person_of_no_text_of_the_case_has_a_sign() -> None:
    """With a known surname, or where a sentence says something of him."""
    known = plain(f"{ACCEPTED} {ASKED}")
    for answer in ("Paid to Gustav Soll.", "Walter Brandt got it.", "It went to Walter Brandt."):
        assert list(foreign_names(answer, known)) != []
    for answer in ("Since Anna Soll has it", "Best Regards", "Mrs Soll", "ask the Payment Office"):
        assert list(foreign_names(answer, known)) == []


RENEWED = (
    "Mara Quill keeps “Deep Water” until 3 May. "
    "I couldn't renew “Slow Fire”: Jon Sand waits for it."
)
RENEW = Task(
    "renew",
    "Please renew both books of Mara Quill, and tell her on ticket 71 what you could not renew.",
    "simple",
    "change",
    RENEWED,
    oracle=(Call("renew_loan", {"loan_id": 12}),),
)
SWAPPED = "The swap of 9 June is agreed: Ada Roth takes the late shift. Ben Moor is away that day."
SWAP = Task(
    "swap",
    "Ida Lund's daughter is ill. Please find somebody of her team for 9 June and agree the swap.",
    "simple",
    "change",
    SWAPPED,
    oracle=(Call("approve_swap", {"swap_id": 4}),),
)


def faults_of(task: Task, answer: str) -> str:
    changes = (RowChange("rows", (1,), {"id": 1, "state": "open"}, {"id": 1, "state": "done"}),)
    return "; ".join(answer_faults(bounds_of(task, READ, changes), answer))


@pytest.mark.parametrize(
    ("task", "more"),
    [
        # a clause without a word of the case
        (RENEW, "It left the warehouse an hour ago."),
        (RENEW, "You'll miss it."),
        (RENEW, "The shop collects it in the morning."),
        (SWAP, "They quarrelled about everything."),
        (SWAP, "It was cheap for what it is."),
        # of somebody else
        (RENEW, "A colleague picked it up anyway."),
        (RENEW, "Somebody had to pay for it."),
        (RENEW, "Nobody has written to her."),
        (SWAP, "My manager signed it instead."),
        (SWAP, "It was passed on by a friend."),
        # deeds and states of the persons of the case
        (RENEW, "Mara Quill bought it."),
        (RENEW, "She has read both."),
        (RENEW, "Jon Sand has given up on it, and he wrote to us."),
        (SWAP, "Ada Roth demanded extra pay."),
        (SWAP, "She isn't happy about it, and she can't come."),
        (SWAP, "Ben Moor drove her there."),
        # other things of the case
        (RENEW, "The second one is gone."),
        (SWAP, "Her daughter was in hospital."),
        # additions
        (RENEW, "I did that for a surcharge."),
        (RENEW, "She keeps it without cover."),
        (SWAP, "I agreed another one, too, as well."),
        (SWAP, "The late shift is hers, at a higher rate."),
        # double negatives
        (RENEW, "I did not hesitate to renew it."),
        (SWAP, "Nothing kept me from agreeing it."),
    ],
)
def test_a_clause_beside_the_case_is_a_fault(task: Task, more: str) -> None:
    """Whatever its words are, if they are understood one by one."""
    assert faults_of(task, f"{task.answer} {more}") != ""


@pytest.mark.parametrize(
    ("task", "answer"),
    [
        (
            RENEW,
            "As requested, I've renewed “Deep Water” for Mara Quill until 3 May. “Slow Fire” "
            "couldn't be renewed, because Jon Sand is waiting for it.",
        ),
        (
            RENEW,
            "Good news first: “Deep Water” is renewed until 3 May. Jon Sand waits for “Slow "
            "Fire”, so I couldn't renew that one, I'm afraid.\n\nBest regards,\nYour team",
        ),
        (
            RENEW,
            "Mara Quill has “Deep Water” until 3 May; “Slow Fire” goes to Jon Sand. I've checked "
            "the loans before. Please let her know, and tell me if you need anything else.",
        ),
        (
            SWAP,
            "Ada Roth takes over the late shift on 9 June, and the swap is agreed. Ben Moor, who "
            "is away that day, couldn't.",
        ),
        (
            SWAP,
            "| date | shift | who |\n|---|---|---|\n| 9 June | late | Ada Roth |\n\n"
            "The swap is agreed; Ben Moor is away.",
        ),
        (
            SWAP,
            "That's been agreed: the late shift on 9 June goes to Ada Roth, since Ben Moor is "
            "away then.",
        ),
    ],
)
def test_the_case_in_other_words_is_not_beside_it(task: Task, answer: str) -> None:
    """Courtesies, what the agent looked at, relations of the things, tables and passives."""
    assert faults_of(task, answer) == ""


@pytest.mark.parametrize("words", ["paid out", "paid it out", "sent out", "sent them out"])
def test_a_verb_of_the_case_with_a_particle_is_understood(words: str) -> None:
    """Also around a pronoun; "paid off" and "gave up" are other claims."""
    known = known_words(["The money was paid and the letters sent."], [])
    assert list(not_understood(f"I {words}.", known, is_refusal=False)) == []
    for other in ("paid off", "gave it up", "wrote it off"):
        assert list(not_understood(f"I {other}.", known, is_refusal=False)) != []


@pytest.mark.parametrize(
    "words",
    ["minus", "less than", "up to", "at least", "almost", "over", "about", "a maximum of"],
)
def test_a_word_that_changes_an_amount_stands_in_the_accepted_answer(words: str) -> None:
    """It may be about another amount there: it must be beside the same one."""
    accepted = "$84.50 (90.00 less the fee of 5.50) went back to Anna Soll for order 4107."
    wrong = accepted.replace("$84.50", f"{words} $84.50")
    assert faults(wrong, accepted=accepted) != ""
    assert faults(accepted.replace("less", "minus"), accepted=accepted) == ""


def test_a_message_is_read_like_an_answer_and_a_note_is_not() -> None:
    """Its writer tells somebody what is so; a note has the words of its trade."""
    told = "Dear Ms Quill, you can keep “Deep Water” until 3 May. Jon Sand waits for the other one."
    note = "“Slow Fire” kept back for Jon Sand, renewal of “Deep Water” by 3 May."
    for text, lie, is_read in (
        (told, "A courier will collect it tomorrow.", True),
        (told, "You are banned.", True),
        (note, "Regular reader, easygoing.", False),
    ):
        change = RowChange("texts", (1,), None, {"id": 1, "body": text})
        bounds = bounds_of(RENEW, READ, (change,))
        written = RowChange("texts", (1,), None, {"id": 1, "body": f"{text} {lie}"})
        finding = Finding("a", True, "a", "a", "goal", is_of_words=True)
        found = bounded((finding,), bounds, RENEWED, (written,))
        assert all(one.passed for one in found) is not is_read


@pytest.mark.parametrize(
    "more", ["It was paid out.", "It's been reimbursed.", "The money went out.", "I gave it back."]
)
def test_what_is_refused_is_not_done_in_another_word(more: str) -> None:
    """A refusal makes the words of its deed known, and no deed."""
    refusal = "I can't refund order 4107: it is 40 days old."
    task = Task("late", ASKED, "simple", "decline", refusal, oracle=ORACLE)
    answer = f"{refusal} {more}"
    found = [*answer_faults(bounds_of(task, READ, ()), answer)]
    named, context = Things([refusal]).named, plain(refusal)
    found += other_stages(refusal, answer, named, context=context, is_refusal=True)
    assert found != []
