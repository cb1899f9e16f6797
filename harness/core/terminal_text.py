"""Texts from models, tools and files, made safe and short for a terminal."""

_LONGEST = 600  # characters
_CONTROLS = (*range(32), *range(127, 160))
# Marks that change the direction of text, separators of lines, characters without width, and half
# surrogate pairs, which cannot be encoded.
_INVISIBLE = (
    *(0xAD, 0x61C, 0x180E, 0xFEFF),
    *range(0x200B, 0x2010),
    *range(0x2028, 0x202F),
    *range(0x2060, 0x2070),
    *range(0xD800, 0xE000),
    *range(0xFFF9, 0xFFFC),
)
_TAGS = range(0xE0000, 0xE0080)  # letters that nobody sees
_ONE_LINE = {code: f"\\x{code:02x}" for code in _CONTROLS}
_ONE_LINE |= {code: f"\\u{code:04x}" for code in _INVISIBLE}
_ONE_LINE |= {code: f"\\U{code:08x}" for code in _TAGS}
_LINES = {code: text for code, text in _ONE_LINE.items() if chr(code) not in "\t\n"}


def printable(text: str, *, one_line: bool = False) -> str:
    """The text with everything that a terminal would act on (controls, direction marks) replaced by
    escapes. Tabs and line ends stay, unless the text must be `one_line`.

    Example: printable("\\x1b[2Jhi") -> "\\\\x1b[2Jhi"
    """
    if text.isascii() and text.isprintable():  # nearly all texts: nothing to replace
        return text
    return text.translate(_ONE_LINE if one_line else _LINES)


def shorten(text: str, limit: int = _LONGEST) -> str:
    """The text without outer spaces and controls, cut after `limit` characters.

    Example: shorten("abcdef", 3) -> "abc… (6 characters)"
    """
    text = printable(text.strip())
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"


def plural(number: int, noun: str) -> str:
    """A number with its noun.

    Example: plural(1, "row") -> "1 row", plural(2000, "row") -> "2,000 rows"
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
