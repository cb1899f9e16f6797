"""The border between texts that others wrote and a terminal: what they wrote is shown, not obeyed.

Promise: no control character, escape sequence or direction mark in a title, a task, a result, a
verdict or an error reaches a terminal, whichever code prints it. Two doors lead out, and both
escape: `Terminal`, for text with colours and tables, and, in `escaped_output`, sys.stdout and
sys.stderr, for everything else (click, logs, warnings, tracebacks, print). JSON is written to the
bytes below sys.stdout and stays exact.
"""

import io
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import IO, Any, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from rehearsal_room.harness.core.terminal_text import printable


class Terminal(Console):
    """A rich console that escapes what a terminal would act on, and takes no text for markup.

    Its own colours and the movements of a progress bar pass: rich makes them of styles and control
    segments, which no text can hold. `options` are rich's.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, "emoji": False, "highlight": False} | options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The segments of what is printed, their texts escaped. Everything that a console prints
        passes here, also the parts of tables, panels and live displays."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)


class _EscapedStream:
    """A text stream that escapes what is written to it, and else is the stream below.

    `rich_proxied_file` is what a rich console writes to: a Terminal has escaped its texts already.
    """

    def __init__(self, raw: IO[str]) -> None:
        self.rich_proxied_file = raw

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)

    @property
    def encoding(self) -> str:
        """UTF-8, whatever the stream below has: for ASCII click would write to the bytes below."""
        return "utf-8"

    def write(self, text: str) -> int:
        """Write the text, escaped; the number of its characters."""
        self.rich_proxied_file.write(printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write the lines, escaped."""
        self.write("".join(lines))


@contextmanager
def escaped_output() -> Generator[None]:
    """A block in which sys.stdout and sys.stderr escape what is written to them as text, and what
    their encoding lacks."""
    streams: list[Any] = [sys.stdout, sys.stderr]
    errors = [getattr(stream, "errors", None) for stream in streams]
    for stream in streams:
        _set_errors(stream, "backslashreplace")
    sys.stdout, sys.stderr = map(_EscapedStream, streams)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams
        for stream, before in zip(streams, errors, strict=True):
            _set_errors(stream, before)


def _set_errors(stream: Any, errors: str | None) -> None:
    if errors is not None and isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors=errors)


def show_traceback(kind: type[BaseException], exc: BaseException, trace: Any) -> None:
    """A sys.excepthook: what Python shows of an error that nothing caught, escaped."""
    with escaped_output():
        sys.__excepthook__(kind, exc, trace)


def unescaped(stream: TextIO) -> TextIO:
    """The stream below one of `escaped_output`, for writers that escape their texts themselves and
    write colours; another stream itself."""
    raw: TextIO = getattr(stream, "rich_proxied_file", stream)
    return raw
