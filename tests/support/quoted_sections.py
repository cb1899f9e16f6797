"""Reads the sections of a prompt back: the inverse of judge.llm.quoting.quote_section."""

import re
from collections.abc import Iterable, Iterator

from rehearsal_room.judge.llm.quoting import Quote, Section, Visible

_BREAK = "\ue000"  # a line break, as visible texts have it
_BEGIN = re.compile(r"----- begin ([0-9a-f]{12}): (.*) -----")
_LABEL = re.compile(r"([A-Z]\d*) ([^|\n]*)\| (.*)")


def parse_sections(message: str) -> list[Section]:
    """The sections of a message, as they were quoted; text outside of them is ignored.

    ValueError when a section does not end.
    """
    lines = iter(message.split("\n"))
    return [
        Section(found[2], tuple(_quotes(_until(lines, f"----- end {found[1]} -----"))))
        for line in lines
        if (found := _BEGIN.fullmatch(line))
    ]


def _until(lines: Iterator[str], end: str) -> Iterator[str]:
    for line in lines:
        if line == end:
            return
        yield line
    raise ValueError(f"a section without its end {end!r}")


def _quotes(lines: Iterable[str]) -> Iterator[Quote]:
    label: re.Match[str] | None = None
    texts: list[str] = []
    for line in lines:
        if line.startswith("| "):
            texts.append(line[2:])
            continue
        if label is not None:
            yield Quote(label[1], label[2], Visible(_BREAK.join(texts)))
        label = _LABEL.fullmatch(line)
        if label is None:
            raise ValueError(f"a line in a section that belongs to no evidence item: {line!r}")
        texts = [label[3]]
    if label is not None:
        yield Quote(label[1], label[2], Visible(_BREAK.join(texts)))
