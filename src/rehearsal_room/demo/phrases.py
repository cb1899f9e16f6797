"""Phrases that many texts of micro-worlds share; the tokenizer makes each of them one token."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from rehearsal_room.scenarios.microworlds.offices import MISS

# The frames of calls and results, and the text after <|im_start|>.
_ALWAYS = (
    *("system\n", "user\n", "assistant\n"),
    *('<tool_call>\n{"name":"', '","arguments":{"', "}}\n</tool_call>"),
    # Between an argument and its value one token: the model's heads copy over this distance.
    *('":"', '":', '","', ',"'),
    *("<tool_response>\n", "\n</tool_response>", "user\n<tool_response>\n", f"Error: {MISS}"),
)
_TOOL = re.compile(
    r'(\{"type":"function","function":\{"name":")\w+'
    r'(","description":"[^"]*","parameters":\{"type":"object","properties":\{")(.*)'
)
_ARGUMENT = re.compile(r'(\w+)":\{"type"')
_WORD = re.compile(r"[A-Za-z]+")
_SHARE = 0.5  # a common word is in at least this share of the texts
_SHARE_OF_RUN = 0.005  # a phrase is in at least this share of the texts


def phrases_of(prompts: Sequence[str], instructions: Sequence[str]) -> list[str]:
    """The phrases of system prompts and instructions, without duplicates."""
    arguments = frozenset(name for prompt in prompts for name in _ARGUMENT.findall(prompt))
    found = [*_ALWAYS, *_frames(prompts), *_runs(instructions, without=arguments)]
    return list(dict.fromkeys(found))


def _frames(prompts: Sequence[str]) -> list[str]:
    """The texts around the tools of system prompts, and around the names in a tool: its own name
    and those of its arguments. They include descriptions, which have few words in micro-worlds."""
    frames = []
    for prompt in prompts:
        lines = prompt.split("\n")
        tools = [number for number, line in enumerate(lines) if _TOOL.fullmatch(line)]
        frames.append("\n".join(lines[: tools[0]]))
        frames.append("\n" + "\n".join(lines[tools[-1] + 1 :]))
        for number in tools:
            found = _TOOL.fullmatch(lines[number])
            assert found is not None
            opening, about, arguments = found.groups()
            frames += ["\n" + opening, about, *_around_names(arguments)]
    return sorted(set(frames))


def _around_names(arguments: str) -> list[str]:
    """The texts around the names of arguments in a tool's schema."""
    names = sorted(set(_ARGUMENT.findall(arguments)))
    return [part for part in re.split(rf"\b(?:{'|'.join(names)})\b", arguments) if part]


def _runs(texts: Sequence[str], *, without: frozenset[str]) -> list[str]:
    """The longest runs of common words that many texts share, including blanks at their ends.

    Example: ". Then give the " of "… Then give the order of client 41 the …"
    """
    words = Counter(word for text in texts for word in set(_WORD.findall(text)))
    common = {word for word, count in words.items() if count >= _SHARE * len(texts)} - without
    counts = Counter(run for text in texts for run in set(_runs_of(text, common)))
    least = max(2, _SHARE_OF_RUN * len(texts))
    return sorted(run for run, count in counts.items() if count >= least)


def _runs_of(text: str, common: set[str]) -> Iterator[str]:
    """The parts of a text that consist of common words and the characters between them."""
    run = ""
    for piece in [*re.findall(r"[A-Za-z]+|\d+|[^A-Za-z\d]+", text), "0"]:
        if piece in common or not piece[0].isalnum():
            run += piece
            continue
        if _WORD.search(run) and run != run.strip():
            yield run
        run = ""
