"""What a run folder may do that its user did not ask for: nothing, unless this user began the run.

A run folder is data, which may come from anybody. It names commands, packages and addresses: the
command of an MCP server, the folder of a world, the URL of a model server. This module decides what
of that counts, for every command that reads a run folder:

- In a run that this user began on this machine, all of it. Such a run.toml or judge.toml ends with
  a mark, which only the key in the user's own folder makes (`$XDG_STATE_HOME/rehearse/run.key`).
- In any other run, nothing that acts: commands, addresses and other files are refused with a
  sentence, and packages run in sandboxed workers, except bundled ones and those below
  $REHEARSE_WORLDS. What is kept to be read again (verdicts of models, the viewer's index) is kept
  in the user's own folder.
- What the command line says counts in any case, and `--trust-run` makes all of the folder count.

The mark is a keyed BLAKE2b (RFC 7693) of the file. It says who wrote the file, not who wrote the
log beside it: so a package is the user's only where the file has its digest.
"""

import hmac
import os
from collections.abc import Collection, Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.terminal_text import printable
from rehearsal_room.harness.core.user_state import MARK_KEY, own_mark, state_folder, user_key
from rehearsal_room.harness.log.outputs import own_path
from rehearsal_room.harness.settings.fields import fields_of, value_of
from rehearsal_room.harness.settings.judge import JudgeSettings
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.setup.trusted_folders import trusts_run_folders
from rehearsal_room.scenarios.catalogue import bundled_names, folder_of
from rehearsal_room.scenarios.errors import ScenarioError
from rehearsal_room.scenarios.files import own_fault, read_toml
from rehearsal_room.scenarios.format import BUNDLED

RUN_FILE = "run.toml"
_MARK = b"# begun by this user: "
# Keys of settings by which a file acts, and what they name. Those of worlds first: commands that
# play nothing use only these.
_OF_WORLDS = {
    "mcp": "the MCP server",
    "openenv": "the OpenEnv environment",
    "suite_path": "the suite's folder",
    "suite_python": "the suite's interpreter",
    "suite_servers": "the servers of the suite",
    "suite_tasks": "the suite's tasks",
    "mcp_env": "variables of your environment",
    "mcp_header": "headers with variables of your environment",
}
_OF_PLAY = {
    "pool": "the server of worlds",
    "base_url": "the model server",
    "user_base_url": "the server of the user's model",
    "bus": "the broker",
    "bus_ca_file": "the authority of the broker's certificate",
    "bus_cert_file": "a certificate of yours",
    "bus_key_file": "a key of yours",
    "engine": "the engine",
    "address": "the cluster",
    "forked_from": "an episode of another run,",
    "model": "the model's folder",
    "chaos": "faults to inject, of the file",
    "script": "the replies in the file",
    "replay": "the replies of another run,",
    "tokens": "the model's folder",
    "prices": "the prices in the file",
    "allow": "the list of tasks in the file",
    "agent": "the agent",
    "agent_env": "variables of your environment",
}
_OF_JUDGE = {
    "base_url": "the server of the judge's models",
    "models": "a judge's model with its own server,",
    "cache": "the cache of verdicts",
    "rubric": "the rubric in the file",
    "awm_code": "the prompts in the folder",
    "prices": "the prices in the file",
}


def marked(data: bytes) -> bytes:
    """A file of this user's run with its mark at the end; without one where no key can be kept,
    and with `--trust-run`, which holds for one command."""
    mark = "" if trusts_run_folders() else own_mark(data, "run")
    return data + _MARK + mark.encode() + b"\n" if mark else data


def kept_path(folder: Path, name: str) -> Path:
    """Where a file is that is kept for later commands on a run: in its folder, if this user began
    the run or has no folder of their own; else in the user's own folder, because the author
    of the run's folder could have made the file. Raises OSError."""
    if counts(folder / RUN_FILE) or user_key(MARK_KEY) is None:
        return own_path(folder / name)
    place = blake2b(os.fsencode(folder.resolve()), digest_size=12).hexdigest()
    own = state_folder() / "runs" / place
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    return own / name


def renewed(file: Path, data: bytes) -> bytes:
    """What replaces a file of a run, with a mark if the file has one."""
    return marked(data) if counts(file) else data


def counts(file: Path) -> bool:
    """Whether what a file of a run folder names counts: this user began the run, or trusts it."""
    if trusts_run_folders():
        return True
    if own_fault(file):
        return False
    try:
        data, _, mark = file.read_bytes().rpartition(_MARK)
    except OSError:
        return False
    own = own_mark(data, "run") if data else ""
    return bool(own) and hmac.compare_digest(own.encode(), mark.strip())


def harmless(settings: Settings, file: Path, logged: Iterable[tuple[str, str]] = ()) -> Settings:
    """The settings in a run.toml, with which a command may read: they start no command, send no
    variable, and isolate packages that are not the user's. `logged` are the packages that the log
    has, as digest and path or name. A command that opens the worlds calls `require_worlds` first.
    """
    worlds = settings.worlds
    is_own = counts(file)
    if not is_own:
        worlds = msgspec.structs.replace(
            worlds,
            suite_path="",
            suite_python="",
            suite_servers="",
            suite_tasks="",
            mcp_env=(),
            mcp_header=(),
        )
    if strangers(settings, file, logged):
        worlds = msgspec.structs.replace(worlds, isolate=True)
    return msgspec.structs.replace(settings, worlds=worlds)


def strangers(settings: Settings, file: Path, logged: Iterable[tuple[str, str]] = ()) -> list[str]:
    """The packages of a run that are not the user's: the folder alone names them."""
    if trusts_run_folders():
        return []
    is_own = counts(file)
    known = _digests_in(file) if is_own else set()
    names = [] if is_own else [name.partition(":")[0] for name in settings.scenarios]
    names += [name for digest, name in logged if digest not in known]
    return [name for name in dict.fromkeys(names) if not is_own_package(name)]


def isolated_unless_own(settings: Settings, names: Iterable[str]) -> Settings:
    """The settings, which isolate all packages where one of these is not the user's: a file of
    data names them, or a command that only shows them."""
    if trusts_run_folders() or all(map(is_own_package, names)):
        return settings
    worlds = msgspec.structs.replace(settings.worlds, isolate=True)
    return msgspec.structs.replace(settings, worlds=worlds)


def require_worlds(settings: Settings, file: Path) -> None:
    """Refuse the worlds of a run.toml that name a command or an address. Raises SettingsError."""
    _require(settings, file, _OF_WORLDS, given=None)


def require_play(settings: Settings, file: Path, *, given: Collection[str] | None) -> None:
    """Refuse to play with a run.toml that names a command or an address. `given` are the keys that
    the command line gives; None: it has no flags for them. Raises SettingsError."""
    if (file.parent / "copied.json").exists() and not trusts_run_folders():
        raise SettingsError(
            f"{file.parent}: this is a copy of a run that is played elsewhere, and is not played "
            "on here; pass --trust-run to do it nevertheless"
        )
    _require(settings, file, _OF_WORLDS | _OF_PLAY, given=given)
    flags = {key.removeprefix("judge_") for key in given or () if key.startswith("judge_")}
    taken = None if given is None else flags
    _require(settings.judge, file, _OF_JUDGE, given=taken, prefix="judge-")


def require_began(file: Path) -> None:
    """Refuse all settings in a file of somebody else's run, where nothing in them is known to be
    harmless. Raises SettingsError."""
    if not counts(file):
        raise SettingsError(
            f"{file} belongs to a training run that you did not begin on this machine, and could "
            "name commands, packages and servers: read it and copy it to a place of your own, or "
            "pass --trust-run if you trust the folder"
        )


def require_judge(settings: JudgeSettings, file: Path, *, given: Collection[str]) -> None:
    """Refuse a judge's settings of a file that name an address. `given` are the keys that the
    command line gives. Raises SettingsError."""
    _require(settings, file, _OF_JUDGE, given=given)


def _require(
    settings: Settings | JudgeSettings,
    file: Path,
    keys: dict[str, str],
    *,
    given: Collection[str] | None,
    prefix: str = "",
) -> None:
    if counts(file):
        return
    for field in fields_of(type(settings)):
        value = value_of(settings, field)
        if field.key not in keys or field.key in (given or ()) or value == field.default:
            continue
        if field.key == "model" and not _loads_model(settings):
            continue
        if not _acts(field.key, value):
            continue
        has_flag = given is not None and field.flag
        way = f"give it as --{prefix}{field.flag} yourself, or " if has_flag else ""
        raise SettingsError(
            f"{file} names {keys[field.key]} {printable(_shown(value), one_line=True)}, and a file "
            "runs nothing, opens nothing and gets no key unless you began its run on this machine: "
            f"{way}"
            "pass --trust-run if you trust the folder"
        )


def _loads_model(settings: Settings | JudgeSettings) -> bool:
    """Whether the model's name is that of its folder."""
    return isinstance(settings, Settings) and settings.policy.name in ("local", "vllm")


def _acts(key: str, value: Any) -> bool:
    """Whether a value is an address or a command that is not in the user's environment, too."""
    if key == "models":
        return any("@http" in name for name in value)
    if key.endswith("base_url"):
        return bool(value) and value != os.environ.get("OPENAI_BASE_URL")
    return bool(value)


def _shown(value: Any) -> str:
    return repr(", ".join(value) if isinstance(value, tuple) else value)


def is_own_package(name: str) -> bool:
    """Whether a package may run in this process though only a file names it: it is a bundled one,
    or in the folder of worlds that the user has configured."""
    if name in bundled_names():
        return True
    folder = folder_of(name)
    if folder is None:  # a record, an entry of a suite, a file of tasks: it has no code of its own
        return True
    path, configured = folder.resolve(), os.environ.get("REHEARSE_WORLDS")
    if path.parent == BUNDLED.resolve():
        return True
    return bool(configured) and Path(configured or "").resolve() in path.parents


def _digests_in(file: Path) -> set[str]:
    """The digests of the packages with which a run began."""
    try:
        environment = read_toml(file).get("environment", {})
        return set(map(str, environment.get("packages", {}).values()))
    except (ScenarioError, AttributeError):
        return set()
