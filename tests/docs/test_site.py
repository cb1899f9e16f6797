"""The site's own parts, without MkDocs: tables made from structs, links, navigation."""

import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest
from msgspec import inspect

from docs.hooks.field_tables import fields_table, settings_table, struct_fields
from docs.hooks.repository_links import PAGES as ROOT_PAGES
from docs.hooks.repository_links import mend_links
from rehearsal_room.cli.main import cli
from rehearsal_room.harness.log.schema import FORMAT, SCHEMA
from rehearsal_room.harness.settings.fields import fields_of
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.learner.config.settings import TrainSettings
from tests.support.paths import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
MARKS = sorted(
    {mark for page in PAGES for mark in re.findall(r"<!-- fields: ([\w.]+) -->", page.read_text())}
)


def page(name: str) -> str:
    """The text of a page."""
    return (DOCS / name).read_text(encoding="utf-8")


def leaves(group: click.Group, path: str = "rehearse") -> Iterator[tuple[str, click.Command]]:
    """The commands that do something themselves, each with its path; groups do not."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from leaves(command, f"{path} {name}")
        if command.callback is not None:
            yield f"{path} {name}", command


def test_the_tables_of_a_run_have_every_setting() -> None:
    """Each setting has a row with its key, its flag and its description."""
    rows = settings_table("rehearsal_room.harness.settings.run.Settings").splitlines()

    for field in fields_of(Settings):
        found = [row for row in rows if f"`{field.key}`" in row and field.description in row]
        assert len(found) == 1, field.key
        assert not field.flag or f"`--{field.flag}`" in found[0]
        assert ("↻" in found[0]) == field.may_change


def test_the_tables_of_a_training_file_have_every_key_and_no_flags() -> None:
    """A training file has no flags; each of its keys has a row below its table's name."""
    text = settings_table("rehearsal_room.learner.config.settings.TrainSettings", flags=False)

    assert "--" not in re.sub(r"^\|[-|]+\|$", "", text, flags=re.MULTILINE)
    assert "| `model` | text | required |" in text
    for field in fields_of(TrainSettings):
        assert f"`{field.name}`" in text
        assert not field.table or f"**`[{field.table}]`**" in text


def test_every_settings_struct_of_the_page_is_found() -> None:
    """The marks for settings on the page name structs with fields."""
    for target in re.findall(
        r"<!-- (?:settings|keys): ([\w.]+) -->", page("reference/settings.md")
    ):
        assert settings_table(target).count("\n") > 2, target


@pytest.mark.parametrize("target", MARKS)
def test_a_table_has_every_field_of_its_struct(target: str) -> None:
    """What is read from the source are the fields that msgspec writes, in its order."""
    module, _, name = target.rpartition(".")
    info = inspect.type_info(getattr(import_module(module), name))
    assert isinstance(info, inspect.StructType)
    top = [row.path for row in struct_fields(target) if not re.search(r"[.\[*]", row.path)]
    tag = [info.tag_field] if info.tag_field else []

    assert top == [*tag, *(field.encode_name for field in info.fields)]
    assert len(fields_table(target).splitlines()) >= len(top) + 2


def test_fields_of_structs_inside_have_paths() -> None:
    """Lists are `[]`, maps are `.*`; a struct is expanded once."""
    found = {
        row.path: row for row in struct_fields("rehearsal_room.harness.reports.bench.BenchReport")
    }

    assert found["lease_us.p50"].kind == "number"
    assert found["call_us"].meaning.endswith("(fields: see `lease_us`)")
    assert "call_us.p50" not in found
    assert found["model"].kind == "object or `null`"
    assert found["model"].meaning == "`null`: no model behind HTTP played"


def test_every_result_for_programs_has_a_section() -> None:
    """Each command with --json has a section on the page of JSON fields, and no other has one."""
    sections = set(re.findall(r"^## `(rehearse [^`]+)`$", page("reference/json.md"), re.MULTILINE))
    writing = {
        path
        for path, command in leaves(cli)
        if any("--json" in parameter.opts for parameter in command.params)
    }

    assert sections - {"rehearse export"} == writing


def test_the_page_on_the_log_has_its_format_and_columns() -> None:
    """The page states the version that the program writes, and names every column."""
    text = page("reference/log-format.md")

    assert f"Its value is `{FORMAT}`" in text
    for statement in SCHEMA:
        if made := re.match(r"CREATE TABLE (\w+) \((.*)", statement, re.DOTALL):
            columns = re.findall(r"(\w+) (?:TEXT|INTEGER|REAL|BLOB)", made[2])
            assert columns
            assert [one for one in (made[1], *columns) if f"`{one}`" not in text] == []


def test_every_page_is_in_the_navigation() -> None:
    """mkdocs.yml names every page once, and no page that does not exist."""
    listed = re.findall(
        r"(?:: |- )([\w/.-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE
    )
    pages = [path.relative_to(DOCS).as_posix() for path in PAGES]

    assert sorted(listed) == sorted([*pages, *ROOT_PAGES])


@pytest.mark.parametrize(
    ("name", "link", "shown"),
    [
        ("index.md", "[map](../ARCHITECTURE.md)", "[map](ARCHITECTURE.md)"),
        ("explanation/judge.md", "[a](../../CHANGELOG.md#x)", "[a](../CHANGELOG.md#x)"),
        ("explanation/judge.md", "[gate](../gate.md#checks)", "[gate](../gate.md#checks)"),
        ("ARCHITECTURE.md", "![map](docs/pictures/a.svg)", "![map](pictures/a.svg)"),
        ("ARCHITECTURE.md", "[judge](docs/judging.md)", "[judge](judging.md)"),
        ("learning.md", "[worlds](../scenarios/microworlds)", "worlds (`scenarios/microworlds`)"),
        ("index.md", "[site](https://example.org/a.md)", "[site](https://example.org/a.md)"),
        (
            "index.md",
            "`[x](../y)` and\n```\n[x](../y)\n```",
            "`[x](../y)` and\n```\n[x](../y)\n```",
        ),
    ],
)
def test_links_lead_to_pages_of_the_site(name: str, link: str, shown: str) -> None:
    """A link to a page of the repository leads to it in the site; to another file, it is a path."""
    assert mend_links(link, name) == shown


def test_nothing_is_loaded_from_elsewhere() -> None:
    """Neither the theme's settings nor own scripts and styles name a server; a drawing in Mermaid
    would make the theme load a script from the internet, so there is none."""
    settings = (ROOT / "mkdocs.yml").read_text()

    assert "font: false" in settings
    assert re.findall(r"\w+://", settings) == ["file://"] * settings.count("file://")
    for asset in (DOCS / "assets").iterdir():
        assert not re.search(r"https?://", asset.read_text()), asset
    assert [path.name for path in PAGES if "```mermaid" in path.read_text("utf-8")] == []


def test_json_examples_can_be_read() -> None:
    """Blocks marked `json` are JSON, an ellipsis apart."""
    for path in PAGES:
        for block in re.findall(r"```json\n(.*?)```", path.read_text("utf-8"), re.DOTALL):
            assert json.loads(block.replace("…", "")) is not None, path


def test_pages_of_the_root_exist() -> None:
    """The pages that the site takes from the repository's root are there."""
    assert all(Path(ROOT, name).is_file() for name in ROOT_PAGES)
