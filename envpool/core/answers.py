"""How long a final answer may be."""

MAX_ANSWER = 100_000  # characters
KEPT = 10_000  # characters of a text that is too long


def cut_answer(text: str) -> str:
    """An answer that cannot be asked for again, or its beginning where it is too long; the rest is
    named at the end."""
    if len(text) <= MAX_ANSWER:
        return text
    return f"{text[:KEPT]}… (cut: it had {len(text):,} characters, of {MAX_ANSWER:,} that fit)"
