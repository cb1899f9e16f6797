"""The prompts: bundled files, each of which a user may replace by another file.

    version: 1
    --- system
    You design …
    --- user
    World: {{name}}

A part begins with a line `--- system` or `--- user`; `{{name}}` is replaced by a value. A user's
folder needs only the files that differ, each with any version.
"""

import re
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path

from rehearsal_room.scenarios.errors import SynthesisError
from rehearsal_room.scenarios.nearest import did_you_mean
from rehearsal_room.scenarios.synth.core.protocols import PromptMessage

FOLDER = Path(__file__).parent / "prompts"
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.md")))
_HEAD = re.compile(r"version: *(\S+) *\n")
_PART = re.compile(r"^--- (system|user) *\n", re.M)
_FIELD = re.compile(r"\{\{(\w+)\}\}")


class PromptFile:
    """One prompt file. Raises SynthesisError naming the file."""

    def __init__(self, path: Path, fields: frozenset[str] | None = None) -> None:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as exc:
            raise SynthesisError(f"{path}: the prompt cannot be read: {exc}") from exc
        head = _HEAD.match(text)
        if head is None:
            raise SynthesisError(f"{path}: expected a first line such as `version: 1`")
        pieces = _PART.split(text[head.end() :])
        if pieces[0].strip() or "user" not in pieces[1::2]:
            raise SynthesisError(f"{path}: expected `--- system` and `--- user` before its parts")
        self._parts = list(zip(pieces[1::2], pieces[2::2], strict=True))
        self.version = head[1]
        self.digest = blake2b(text.encode(), digest_size=8).hexdigest()
        self.fields = frozenset(_FIELD.findall(text))
        if fields is not None and (unknown := sorted(self.fields - fields)):
            known = ", ".join(sorted(fields))
            raise SynthesisError(f"{path}: {{{{{unknown[0]}}}}} is not known here; known: {known}")

    def messages(self, values: Mapping[str, object]) -> tuple[PromptMessage, ...]:
        """The messages with values in place of fields; fields inside a value stay."""
        return tuple(
            PromptMessage(
                "system" if role == "system" else "user",
                _FIELD.sub(lambda found: str(values[found[1]]), text).strip(),
            )
            for role, text in self._parts
        )


class Prompts:
    """All prompts, those of the folder and for the rest the bundled ones. Raises SynthesisError."""

    def __init__(self, folder: Path | None = None) -> None:
        bundled = {name: PromptFile(FOLDER / f"{name}.md") for name in NAMES}
        self._prompts = dict(bundled)
        if folder is None:
            return
        if not folder.is_dir():
            raise SynthesisError(f"{folder}: the folder of prompts does not exist")
        for path in sorted(folder.glob("*.md")):
            if path.stem not in bundled:
                hint = did_you_mean(path.stem, NAMES) or f"; known: {', '.join(NAMES)}"
                raise SynthesisError(f"{path}: no stage has a prompt of this name{hint}")
            self._prompts[path.stem] = PromptFile(path, bundled[path.stem].fields)

    def messages(self, name: str, /, **values: object) -> tuple[PromptMessage, ...]:
        """The messages of a prompt."""
        return self._prompts[name].messages(values)

    def version(self, name: str) -> str:
        """A prompt's version and digest.

        Example: "1 (9f86d081884c7d65)"
        """
        prompt = self._prompts[name]
        return f"{prompt.version} ({prompt.digest})"
