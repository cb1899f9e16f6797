"""MkDocs hook: fill in the tables of the reference pages.

<!-- settings: harness.settings.run.Settings -->       settings: key, flag, value, default
<!-- keys: learner.config.settings.TrainSettings -->   the same of a file that has no flags
<!-- fields: harness.reports.summary.RunReport -->     fields of JSON and of log records
"""

import re
import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from field_tables import fields_table, settings_table

_MARK = re.compile(r"<!-- (settings|keys|fields): ([\w.]+) -->")
# The last two cells of a row of mkdocs-click: description and default.
_DEFAULT = re.compile(r"</td>\s*<td>(?P<default>(?:(?!</?td>).)*)</td>\s*</tr>", re.DOTALL)
_NONE = ("", "None", "Sentinel.UNSET", "False", "0")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with a table in place of each mark."""
    tables = {
        "settings": settings_table,
        "keys": partial(settings_table, flags=False),
        "fields": fields_table,
    }
    return _MARK.sub(lambda found: tables[found[1]](found[2]), markdown)


def on_page_content(html: str, *, page: Any, **_: Any) -> str:
    """The page of the command line with defaults in the descriptions, as in `--help`."""
    return move_defaults(html) if page.file.src_uri == "reference/cli.md" else html


def move_defaults(html: str) -> str:
    """The tables of mkdocs-click without their last column, in which most cells say None.

    Example: "<td>Format.</td><td><code>jsonl</code></td>" -> "<td>Format. (default: jsonl)</td>"
    """

    def move(row: re.Match[str]) -> str:
        default = re.sub(r"</?code>", "", row["default"]).strip()
        shown = "" if default in _NONE else f" (default: <code>{default}</code>)"
        return f"{shown}</td>\n</tr>"

    return _DEFAULT.sub(move, html.replace("<th>Default</th>", ""))
