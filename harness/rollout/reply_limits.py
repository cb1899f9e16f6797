"""How long a reply and a final answer may be: longer ones are cut before log, bus and judge.

A model server may send 16 MiB at once. What is longer than any reply of a model is refused: the
step has its beginning and the reason, and nothing of it is read. So no verifier, no subscriber and
no other process gets such a text.
"""

import msgspec

from rehearsal_room.envpool.core.answers import KEPT, MAX_ANSWER
from rehearsal_room.harness.core.messages import Answer, Decision, FormatError, Reply

MAX_REPLY = 2_000_000  # characters of a reply, its thoughts and arguments included


def cut_reply(reply: Reply) -> tuple[Reply, FormatError | None]:
    """The reply, or its beginning and why it is malformed: it is too long."""
    length = len(reply.text)
    for call in reply.calls:
        length += _length(call.arguments)
    if length <= MAX_REPLY:
        return reply, None
    reason = f"The reply has {length:,} characters; write at most {MAX_REPLY:,}."
    cut = msgspec.structs.replace(reply, text=reply.text[:KEPT], calls=())
    return cut, FormatError(reason)


def _length(arguments: object) -> int:
    """About the characters of a call's arguments, or 0 where they are nested too deeply to say: the
    world refuses these."""
    try:
        return len(repr(arguments))
    except RecursionError:
        return 0


def checked_answer(decision: Decision) -> Decision:
    """The decision, or why it is malformed: its answer is too long."""
    if not isinstance(decision, Answer) or len(decision.text) <= MAX_ANSWER:
        return decision
    return FormatError(
        f"The answer has {len(decision.text):,} characters; write at most {MAX_ANSWER:,}."
    )
