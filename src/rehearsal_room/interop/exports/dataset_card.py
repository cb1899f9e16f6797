"""The card of a dataset: README.md beside the exported files, as the Hugging Face hub reads it.

It says where the episodes come from: run, seed, worlds with their digests, policy, history and
licence. The part between the two lines `---` is YAML.
"""

from collections import Counter
from pathlib import Path

import msgspec

from rehearsal_room.harness.core.terminal_text import plural
from rehearsal_room.harness.log.schema import ScenarioSnapshot, write_atomically
from rehearsal_room.interop.exports.source import ExportSource, asks_no_model
from rehearsal_room.scenarios.distribution import version
from rehearsal_room.scenarios.format import BUNDLED

_OWN_LICENSE = "apache-2.0"  # of Rehearsal and of its bundled worlds


class Dataset(msgspec.Struct, frozen=True):
    """What a card says about its files."""

    title: str
    file: str  # the data file, or a pattern of several
    tags: tuple[str, ...]
    fields: tuple[tuple[str, str], ...]  # of a line, and what they mean
    note: str = ""


def make_folder(path: Path) -> None:
    """Make the folder of a dataset. Raises OSError; FileExistsError for a path that is a file."""
    path.mkdir(exist_ok=True)


def write_card(source: ExportSource, folder: Path, about: Dataset) -> None:
    """Write README.md. Raises LogError and OSError."""
    write_atomically(folder / "README.md", card_text(source, about).encode())


def license_of(source: ExportSource) -> str:
    """The licence, in the words of the hub: the one that the user named; that of the bundled worlds
    where no model wrote the replies; else `other`, since worlds or replies may have terms of their
    own."""
    if source.license:
        return source.license
    has_model = not all(asks_no_model(row.policy) for row in source.rows)
    is_bundled = all(Path(world.source_path).parent == BUNDLED for world in _worlds(source))
    return _OWN_LICENSE if is_bundled and not has_model else "other"


def card_text(source: ExportSource, about: Dataset) -> str:
    """The card, as Markdown with YAML at its head."""
    return "\n".join(
        [
            *_head(source, about),
            *_origin(source, about),
            *_worlds_table(source),
            *_fields_table(about),
            *_license(source),
        ]
    )


def _head(source: ExportSource, about: Dataset) -> list[str]:
    return [
        "---",
        f"license: {license_of(source)}",
        f"pretty_name: {_quoted(f'{source.run}: {about.title}')}",
        "tags:",
        *(f"- {tag}" for tag in ("rehearsal", *about.tags)),
        "configs:",
        "- config_name: default",
        f"  data_files: {_quoted(about.file)}",
        "---",
        "",
    ]


def _origin(source: ExportSource, about: Dataset) -> list[str]:
    settings = source.settings
    rows = source.rows
    labels = Counter(str(row.label or "unjudged") for row in rows)
    facts = [
        ("made by", f"Rehearsal {version()}"),
        ("run", f"{source.run} (log {source.log_id})"),
        ("episodes", f"{len(rows)} ({_counted(labels)})" if rows else "0"),
        ("policy", ", ".join(sorted({row.policy for row in rows}))),
    ]
    if settings is not None:
        facts += [
            ("seed", str(settings.seed)),
            ("history", settings.history),
            ("dialect", settings.dialect),
        ]
    return [
        f"# {source.run}: {about.title}",
        "",
        f"{plural(len(rows), 'episode')} of tool-using agents in worlds that a program resets and"
        " judges.",
        *(["", about.note] if about.note else []),
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {_cell(value)} |" for name, value in facts if value),
        "",
    ]


def _worlds_table(source: ExportSource) -> list[str]:
    episodes = Counter(row.scenario_digest for row in source.rows)
    return [
        "## Worlds",
        "",
        "| world | version | package digest | digest of the start database | episodes |",
        "|---|---|---|---|---|",
        *(
            f"| {_cell(world.scenario)} | {_cell(world.version)} | `{world.scenario_digest}` |"
            f" `{world.template}` | {episodes[world.scenario_digest]} |"
            for world in _worlds(source)
        ),
        "",
    ]


def _fields_table(about: Dataset) -> list[str]:
    return [
        "## Fields",
        "",
        "| field | meaning |",
        "|---|---|",
        *(f"| {name} | {meaning} |" for name, meaning in about.fields),
        "",
    ]


def _license(source: ExportSource) -> list[str]:
    chosen = license_of(source)
    text = f"`{chosen}`."
    if chosen == "other":
        text += (
            " The worlds, and the replies of the model, may have terms of their own: read them"
            " before you publish this, and name the licence above."
        )
    return ["## Licence", "", text, ""]


def _worlds(source: ExportSource) -> list[ScenarioSnapshot]:
    used = {row.scenario_digest for row in source.rows}
    return [world for digest, world in source.worlds.items() if digest in used]


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))


def _quoted(text: str) -> str:
    """A text as YAML: JSON's texts are YAML's."""
    return msgspec.json.encode(text).decode()


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
