"""The phrases that are refused in pages, help texts, docstrings, comments and messages."""

import re

# Ten phrases that made readers stop, and what to write.
BANS = {
    r"\b(?:told|whoever)\b": "name the actor; write report, print, state",
    r"(?<!there )\b(?:is|are) no (?!longer\b|more\b|less\b)\w+": "is not a …",
    r"\b(?:to be|cannot be|can be|could be) had\b": "is not available; cannot be read",
    r"\bof (?:ours|one's own)\b": "say whose it is",
    r"\bthat (?:is|are) wanted\b": "that was requested",
    r"\b(?:save for|anew|in its midst)\b": "except for; again; in the middle",
    r"\bnobody (?:asked|waits)\b": "name the actor",
    r"\bheld against (?:him|her|it|them|the agent)\b": "counted against",
    r"\bwho does not fit\b": "what does not fit",
    r"\bof which it took nothing\b": "reused, so the cost is zero",
}


def stumbles(text: str) -> list[str]:
    """What is found of BANS in a text, each with the words around it."""
    plain = " ".join(text.split())
    return [
        f"…{plain[max(0, found.start() - 30) : found.end() + 30]}… -> {better}"
        for pattern, better in BANS.items()
        for found in re.finditer(pattern, plain, re.IGNORECASE)
    ]
