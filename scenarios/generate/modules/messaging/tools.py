"""The messages: threads with customers, and templates."""

from typing import Literal

from rehearsal_room.scenarios.api import Db, Row
from rehearsal_room.scenarios.errors import ToolError
from rehearsal_room.scenarios.generate.modules.common import Id, Limit, Text, _like, _next_number
from rehearsal_room.scenarios.generate.modules.parties.tools import _active_customer, _customer
from rehearsal_room.scenarios.generate.modules.staff.tools import _active_employee, _me, _require

MOST_UNANSWERED_MESSAGES = 2
MOST_MESSAGE_LETTERS = 600


def _thread(db: Db, thread_id: int) -> Row:
    thread = db.one("SELECT * FROM threads WHERE id = ?", thread_id)
    if thread is None:
        raise ToolError(f"There is no thread {thread_id}.")
    return thread


def _open_thread(db: Db, thread_id: int) -> Row:
    thread = _thread(db, thread_id)
    if thread["status"] != "open":
        raise ToolError(f"Thread {thread_id} is {thread['status']}.")
    return thread


def _send(db: Db, thread_id: int, body: str, template_id: int | None) -> Row:
    """Send something in an open thread, if the customer has not been written to in vain."""
    unanswered = db.value(
        "SELECT count(*) FROM messages WHERE thread_id = ?1 AND author_id IS NOT NULL AND id > "
        "coalesce((SELECT max(id) FROM messages WHERE thread_id = ?1 AND author_id IS NULL), 0)",
        thread_id,
    )
    if unanswered >= MOST_UNANSWERED_MESSAGES:
        raise ToolError(f"{unanswered} messages in thread {thread_id} are not answered yet.")
    if len(body) > MOST_MESSAGE_LETTERS:
        raise ToolError(
            f"A message has {MOST_MESSAGE_LETTERS} characters at most, not {len(body)}."
        )
    message_id = db.insert(
        "messages",
        thread_id=thread_id,
        author_id=_me(db)["id"],
        template_id=template_id,
        body=body,
        sent_at=db.now,
    )
    return {
        "message_id": message_id,
        "thread_id": thread_id,
        "template_id": template_id,
        "body": body,
        "sent_at": db.now,
    }


def find_threads(
    db: Db,
    customer_id: Id | None = None,
    query: Text | None = None,
    status: Literal["open", "closed"] | None = None,
    limit: Limit = 20,
) -> list[Row]:
    """Find threads by customer, by a text in subject or reference, by status, or by any of these
    together. Without any of them all threads are listed. The latest comes first."""
    return db.all(
        "SELECT id, reference, customer_id, subject, channel, status, handler_id FROM threads "
        "WHERE (?1 IS NULL OR customer_id = ?1) AND (?2 IS NULL OR subject LIKE ?2 ESCAPE '\\' OR "
        "reference LIKE ?2 ESCAPE '\\') AND (?3 IS NULL OR status = ?3) ORDER BY begun_at DESC, id "
        "LIMIT ?4",
        customer_id,
        None if query is None else _like(query),
        status,
        limit,
    )


def get_thread(db: Db, thread_id: Id) -> Row:
    """Show one thread with its messages, the oldest first. Messages without an author came from the
    customer."""
    thread = _thread(db, thread_id)
    thread["messages"] = db.all(
        "SELECT id, author_id, template_id, body, sent_at FROM messages WHERE thread_id = ? ORDER "
        "BY id",
        thread_id,
    )
    return thread


def list_templates(db: Db) -> list[Row]:
    """List all templates with code, title, channel, text and whether they are current."""
    return db.all("SELECT * FROM templates ORDER BY code")


def start_thread(
    db: Db, customer_id: Id, subject: Text, channel: Literal["email", "chat", "phone"]
) -> Row:
    """Start a thread with an active customer. You become its handler; it has no messages yet."""
    _active_customer(db, customer_id)
    number = _next_number(db, "threads")
    thread_id = db.insert(
        "threads",
        reference=f"TH-{number:06d}",
        customer_id=customer_id,
        subject=subject,
        channel=channel,
        handler_id=_me(db)["id"],
        begun_at=db.now,
    )
    row = _thread(db, thread_id)
    return {"thread_id": row.pop("id"), **row}


def send_message(db: Db, thread_id: Id, body: Text) -> Row:
    """Send a message of your own wording in an open thread."""
    _open_thread(db, thread_id)
    return _send(db, thread_id, body, None)


def send_template(db: Db, thread_id: Id, template_id: Id) -> Row:
    """Send a current template in an open thread of the same channel. The customer's name is filled
    in."""
    thread = _open_thread(db, thread_id)
    template = db.one("SELECT * FROM templates WHERE id = ?", template_id)
    if template is None:
        raise ToolError(f"There is no template {template_id}.")
    if not template["is_current"]:
        raise ToolError(f"Template {template_id} is not current any more.")
    if template["channel"] != thread["channel"]:
        raise ToolError(f"Template {template_id} is for {template['channel']} only.")
    name = _customer(db, thread["customer_id"])["name"]
    return _send(db, thread_id, template["body"].replace("[name]", name), template_id)


def hand_over_thread(db: Db, thread_id: Id, employee_id: Id) -> Row:
    """Hand an open thread over to another active employee."""
    thread = _open_thread(db, thread_id)
    _active_employee(db, employee_id)
    if thread["handler_id"] == employee_id:
        raise ToolError(f"Employee {employee_id} handles thread {thread_id} already.")
    db.run("UPDATE threads SET handler_id = ? WHERE id = ?", employee_id, thread_id)
    return _thread(db, thread_id)


def close_thread(db: Db, thread_id: Id) -> Row:
    """Close an open thread."""
    _open_thread(db, thread_id)
    db.run("UPDATE threads SET status = 'closed' WHERE id = ?", thread_id)
    return _thread(db, thread_id)


def reopen_thread(db: Db, thread_id: Id) -> Row:
    """Reopen a closed thread. Only supervisors and managers may do this."""
    _require(db, "supervisor")
    if _thread(db, thread_id)["status"] == "open":
        raise ToolError(f"Thread {thread_id} is open.")
    db.run("UPDATE threads SET status = 'open' WHERE id = ?", thread_id)
    return _thread(db, thread_id)
