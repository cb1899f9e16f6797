"""The folder of a run: its name, its run.toml, and what is removed when nothing happened."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from shutil import rmtree

from rehearsal_room.harness.chat.prices import Prices, read_prices
from rehearsal_room.harness.core.errors import LogError
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import LOG_NAME, write_atomically
from rehearsal_room.harness.policies.openai import LEARNED
from rehearsal_room.harness.settings.run import (
    Settings,
    save,
    saved,
    with_adaptations,
    with_plan,
)
from rehearsal_room.harness.setup.run_trust import RUN_FILE, counts, marked, renewed
from rehearsal_room.scenarios.format import Scenario, Task


def require_new(folder: Path, *, resume: bool) -> None:
    """Raise LogError where a run exists that is not resumed."""
    if (folder / LOG_NAME).exists() and not resume:
        raise LogError(
            f"{folder}: a run already exists there; pass --resume or choose another folder"
        )


def fresh_folder(settings: Settings) -> Path:
    """runs/<scenario>-<policy>-<number>, the first that does not exist yet."""
    first = Path(settings.scenarios[0].partition(":")[0]).name if settings.scenarios else "run"
    number = 1
    while (folder := Path("runs") / f"{first}-{settings.player}-{number}").exists():
        number += 1
    return folder


@contextmanager
def removed_if_nothing_happened(folder: Path) -> Iterator[None]:
    """A block whose exception removes the folder that it made, unless an episode began."""
    is_new = not folder.exists()
    try:
        yield
    except Exception:
        if is_new and folder.exists() and not has_episodes(folder):
            rmtree(folder)
        raise


def described(
    settings: Settings, tasks: Sequence[tuple[Scenario, Task]], *, level: str = ""
) -> bytes:
    """run.toml for a new run of these settings. `level` is the sandbox of untrusted code; empty:
    there is no such code."""
    packages = {scenario.name: scenario.digest for scenario, _ in tasks}
    return save(settings, packages=packages, log_id=token_hex(8), sandbox=level)


def begin_folder(
    folder: Path, settings: Settings, tasks: Sequence[tuple[Scenario, Task]], *, level: str
) -> None:
    """Make a run's folder with its `run.toml`, where they are not there yet. Raises LogError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / RUN_FILE).exists():
            began = described(settings, tasks, level=level)
            write_atomically(folder / RUN_FILE, marked(began))
    except OSError as exc:
        raise LogError(f"{folder}: the run folder cannot be written: {exc}") from exc


def keep_plan(folder: Path, settings: Settings) -> None:
    """Let the run.toml of a run that is resumed have the size of the plan that is played now.
    Raises LogError and SettingsError."""
    path = folder / RUN_FILE
    if not path.is_file():
        return
    began = saved(path)
    if (began.episodes, began.group_size) == (settings.episodes, settings.group_size):
        return
    try:
        write_atomically(path, renewed(path, with_plan(path, settings)))
    except OSError as exc:
        raise LogError(f"{path}: cannot be written: {exc}") from exc


def keep_adaptations(folder: Path, settings: Settings, statistics: Mapping[str, float]) -> None:
    """Write what the policy has learned of its server (see OpenAIPolicy.statistics) into run.toml,
    for a run that goes on. A file that cannot be written is left as it is."""
    learned = [name.removeprefix(LEARNED) for name in statistics if name.startswith(LEARNED)]
    words, path = sorted({*settings.model.adapt, *learned}), folder / RUN_FILE
    if set(words) == set(settings.model.adapt) or not path.is_file():
        return
    with suppress(OSError):
        write_atomically(path, renewed(path, with_adaptations(path, words)))


def spent_on_verdicts(folder: Path) -> float:
    """What the judge of a run has cost so far, in USD; 0 for a run that has not begun."""
    if not (folder / LOG_NAME).exists():
        return 0.0
    with open_reader(folder) as reader:
        return sum(row.judging.cost_usd or 0.0 for row in reader.episodes())


def has_episodes(folder: Path) -> bool:
    """Whether the folder has the log of a run in which anything happened.

    It is called after a failed run, so it does not fail itself: a log that cannot be read may hold
    something, unless its file is empty.
    """
    path = folder / LOG_NAME
    if not path.exists() or not path.stat().st_size:
        return False
    try:
        with open_reader(folder) as reader:
            return bool(reader.records_after(0, limit=1))
    except LogError:
        return True


def prices_of(folder: Path, given: Path | None) -> Prices | None:
    """The prices of a run's model: those of a file that is given, else those with which the user
    made the run; None: there are none. Raises SettingsError."""
    if given is None and (folder / RUN_FILE).is_file() and counts(folder / RUN_FILE):
        named = saved(folder / RUN_FILE).model.prices
        given = Path(named) if named and Path(named).is_file() else None
    return None if given is None else read_prices(given)
