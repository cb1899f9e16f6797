"""Seed rows of the messages, and helpers that insert threads, messages and templates.

Pools: thread_subjects (what customers write about, a short title), message_questions (what a
customer asks in a message, one or two sentences), message_answers (what we answer, one sentence).
"""

from typing import Any

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.modules.draft_helpers import new_code

_TEMPLATES = (
    ("Receipt by e-mail", "email", "Dear [name], thank you for your message. You will hear from us "
    "within two working days.", 1),
    ("Sorry for the delay", "email", "Dear [name], we are sorry that this takes longer than you "
    "may expect. We have not forgotten you.", 1),
    ("Welcome to the chat", "chat", "Hello [name], thanks for getting in touch. Somebody will be "
    "with you in a moment.", 1),
    ("Receipt (old letterhead)", "email", "Dear [name], we have received your letter and will "
    "reply in due course.", 0),
)  # fmt: skip
_SUBJECTS = (
    "Opening hours on public holidays",
    "Copy of the last receipt",
    "Change of the agreed date",
    "Directions and parking",
    "Invoice to another name",
    "Lost property",
    "Price for a larger group",
    "Thank-you note",
)
_QUESTIONS = (
    "Could you let me know how this works? I could not find it on your site.",
    "I would be glad of a short answer by the end of the week.",
    "Is that still possible at this point?",
)
_ANSWERS = (
    "Thank you for asking; I will find out and come back to you.",
    "Yes, that is possible. Please tell us which day suits you.",
    "I have passed it on to the colleague who looks after this.",
)


def rows(maker: Maker) -> None:
    """Templates, one of them out of date, and a few threads of other days."""
    for title, channel, body, is_current in _TEMPLATES:
        new_template(maker, title=title, channel=channel, body=body, is_current=is_current)
    customers = maker.rows("customers", status="active")
    for index in range(maker.many(3, least=1)):
        thread = new_thread(
            maker,
            maker.rng.choice(customers),
            channel=maker.one_of("email", "email", "chat"),
            status="closed" if index % 3 == 1 else "open",
            age=maker.rng.randrange(8, 40),
        )
        new_message(maker, thread, days=7)
        if index % 3 < 2:
            new_message(maker, thread, by=maker.pick("employees", active=1), days=6)


def thread_subjects(maker: Maker, count: int) -> list[str]:
    """Return this many different subjects of threads, in the trade's words."""
    pool = maker.pool("thread_subjects", *_SUBJECTS)
    texts = pool if len(pool) >= count else tuple(dict.fromkeys((*pool, *_SUBJECTS)))
    return maker.rng.sample(texts, k=count)


def new_template(maker: Maker, *, title: str, **columns: Any) -> Row:
    """Insert a template, which is current unless `is_current=0` is given."""
    code = new_code(maker, "templates", "code", "T", 3)
    return maker.insert("templates", code=code, title=title, **columns)


def new_thread(
    maker: Maker,
    customer: Row,
    *,
    subject: str | None = None,
    handler: Row | None = None,
    age: int = 4,
    **columns: Any,
) -> Row:
    """Insert a thread that began `age` days ago, without messages, and return it."""
    given = {"channel": "email", "status": "open"} | columns
    return maker.insert(
        "threads",
        reference=new_code(maker, "threads", "reference", "TH"),
        customer_id=customer["id"],
        subject=subject or thread_subjects(maker, 1)[0],
        handler_id=(handler or maker.rng.choice(maker.rows("employees", active=1)))["id"],
        begun_at=maker.ago(age),
        **given,
    )


def new_message(
    maker: Maker,
    thread: Row,
    body: str | None = None,
    *,
    by: Row | None = None,
    days: int = 2,
    template: Row | None = None,
) -> Row:
    """Insert a message of `days` days ago: the customer's, or that of the employee `by`."""
    if body is None:
        body = maker.rng.choice(
            maker.pool("message_questions", *_QUESTIONS)
            if by is None
            else maker.pool("message_answers", *_ANSWERS)
        )
    return maker.insert(
        "messages",
        thread_id=thread["id"],
        author_id=None if by is None else by["id"],
        template_id=None if template is None else template["id"],
        body=body,
        sent_at=maker.ago(days),
    )
