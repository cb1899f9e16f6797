"""Long texts, cut for messages and tables."""


def shortened(text: str, limit: int) -> str:
    """The text, cut after `limit` characters.

    Example: shortened("abcdef", 3) -> "abc…"
    """
    return text if len(text) <= limit else f"{text[:limit]}…"


def one_line(text: str, limit: int) -> str:
    """The text on one line, cut after `limit` characters.

    Example: one_line("ab\\n cdef", 4) -> "ab c…"
    """
    return shortened(" ".join(text.split()), limit)
