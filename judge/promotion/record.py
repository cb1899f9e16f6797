"""What a promotion was decided on: digests of the criteria, the runs, their worlds and their
model."""

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import msgspec

from rehearsal_room.harness.core.events import EpisodeStarted, Judged
from rehearsal_room.harness.core.policy_card import CARD_NAME
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.logged_runs.logged_run import run_settings


class RunAgent(msgspec.Struct, frozen=True):
    """Who acted in a run."""

    policy: str  # as the episodes have it: oracle, openai:gpt-5, own:my_agent
    model: str  # a model's name or folder; empty: there was none
    card: str  # digest of the checkpoint's model card; empty: it has none
    history: str
    dialect: str


class RunRecord(msgspec.Struct, frozen=True):
    """One run."""

    run: str  # its folder, as it was named
    digest: str  # of its episodes and verdicts
    episodes: int
    agent: RunAgent


class PromotionRecord(msgspec.Struct, frozen=True):
    """With this a verdict can be traced to what it was made of."""

    gate: str  # digest of the gate file
    runs: tuple[RunRecord, ...]
    base: RunRecord | None
    worlds: dict[str, str]  # digest of each package, by its name


def record_of(criteria: Path, runs: Sequence[Path], base: Path | None) -> PromotionRecord:
    """The record of a promotion. Raises LogError and SettingsError."""
    worlds: dict[str, str] = {}
    records = tuple([_run_record(folder, worlds) for folder in runs])
    other = None if base is None else _run_record(base, {})
    return PromotionRecord(digest_of(criteria.read_bytes()), records, other, worlds)


def digest_of(data: bytes) -> str:
    """A digest, 32 hexadecimal digits."""
    return blake2b(data, digest_size=16).hexdigest()


def _run_record(folder: Path, worlds: dict[str, str]) -> RunRecord:
    settings = run_settings(folder)
    facts: dict[tuple[str, int], list[str]] = {}
    policies: dict[str, None] = {}
    with open_reader(folder) as reader:
        for record in reader.milestones():
            event, key = record.event, (record.episode, record.attempt)
            if isinstance(event, EpisodeStarted):
                facts[key] = [event.scenario_digest, event.task, str(event.seed)]
                worlds[event.scenario] = event.scenario_digest
                policies[event.policy] = None
            elif isinstance(event, Judged) and key in facts:
                facts[key] += [event.episode_digest, event.judge, str(event.label)]
    data = msgspec.json.encode(sorted((*key, *fact) for key, fact in facts.items()))
    return RunRecord(
        run=str(folder),
        digest=digest_of(data),
        episodes=len({episode for episode, _ in facts}),
        agent=RunAgent(
            policy=", ".join(filter(None, policies)) or settings.policy.name,
            model=settings.model.name or "",
            card=_card_digest(settings.model.name),
            history=settings.history,
            dialect=settings.dialect,
        ),
    )


def _card_digest(model: str | None) -> str:
    path = Path(model or "") / CARD_NAME
    try:
        return digest_of(path.read_bytes()) if model else ""
    except OSError:
        return ""
