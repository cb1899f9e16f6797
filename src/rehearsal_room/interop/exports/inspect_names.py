"""Names and times as Inspect AI has them. This module does not need inspect_ai."""

import re
from datetime import UTC, datetime
from hashlib import blake2b

from rehearsal_room.interop.exports.source import ExportSource


def inspect_name(source: ExportSource) -> str:
    """The log's file name in the form that Inspect's lists read: time, task and id."""
    time = stamp(began(source)).partition(".")[0].replace("+00:00", "").replace(":", "-")
    return f"{time}-00-00_{_in_a_file_name(task_name(source))}_{id_of(source, 'task')}.eval"


def _in_a_file_name(name: str) -> str:
    """A name, which the log has from anybody, as a part of a file's name.

    Example: "../shop_support" -> "-shop-support"
    """
    return re.sub(r"[^A-Za-z0-9]+", "-", name)[:100]


def began(source: ExportSource) -> float:
    """When the first episode started, in Unix seconds."""
    return min((row.started_at for row in source.rows), default=0.0)


def task_name(source: ExportSource) -> str:
    """The name of the task: the scenario, where there is one, else the run."""
    scenarios = {row.scenario for row in source.rows}
    return scenarios.pop() if len(scenarios) == 1 else source.run


def id_of(source: ExportSource, what: str) -> str:
    """An id that is the same in every export of a log."""
    return blake2b(f"{what} {source.log_id}".encode(), digest_size=11).hexdigest()


def model_name(policy: str) -> str:
    """A policy in the form of Inspect's models, `provider/model`.

    Example: "openai:gpt-5" -> "openai/gpt-5"; "oracle" -> "rehearsal/oracle"
    """
    provider, found, model = policy.partition(":")
    return f"{provider}/{model}" if found else f"rehearsal/{policy}"


def moment(at: float) -> datetime:
    """Unix seconds as a time in UTC."""
    return datetime.fromtimestamp(at, UTC)


def stamp(at: float) -> str:
    """Unix seconds as ISO 8601 in UTC."""
    return moment(at).isoformat()
