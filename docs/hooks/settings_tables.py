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


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with a table in place of each mark."""
    tables = {
        "settings": settings_table,
        "keys": partial(settings_table, flags=False),
        "fields": fields_table,
    }
    return _MARK.sub(lambda found: tables[found[1]](found[2]), markdown)
