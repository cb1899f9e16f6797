"""The settings of a run: one struct, one TOML file, one flag for each field.

A flag wins over the file given with --config, which wins over the default. The resolved settings
are saved as run.toml beside the result and can be given to --config again.
"""

import platform
import tomllib
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

import apsw
import msgspec
import tomli_w

from envpool.workers.pool import MAX_WORKERS
from harness.bus.mqtt_settings import MqttSettings
from harness.core.errors import SettingsError
from harness.settings.judge import JudgeSettings, Rewards, Vote, checked
from scenarios.decode_errors import field_of
from scenarios.format import Seeding

_JUDGE = JudgeSettings()
PolicyName = Literal[
    "oracle", "mutant", "random", "noop", "scripted", "openai", "vllm", "local", "replay"
]


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a run is made of. None means: not set; what follows then stands beside the field."""

    scenarios: tuple[str, ...] = ()
    allow: str = ""  # a file of worlds and tasks that passed the gate; empty: all may be run
    policy: PolicyName = "oracle"
    episodes: int | None = None  # None: one group of every task
    group_size: int = 1
    concurrency: int = 64
    seed: int = 0
    history: str = "full"
    dialect: Literal["native", "hermes", "awm", "awm-tool"] = "native"
    format_rules: Literal["basic", "awm", "off"] = "basic"
    format_reward: float = -1.0
    format_stop: bool = True
    max_steps: int = 20
    token_limit: int | None = None  # None: no limit
    time_limit: float | None = None  # None: no limit
    reply_timeout: float | None = 300.0  # None: no limit
    call_timeout: float | None = 60.0  # None: no limit
    # Whether a call in which the world fails ends the episode. None: yes, unless the policy is
    # `scripted`, which plays its file to the end.
    world_stop: bool | None = None
    judge: Literal["code", "llm", "hybrid", "none"] = "code"
    judge_models: tuple[str, ...] = _JUDGE.models  # these are explained in JudgeSettings
    judge_base_url: str = _JUDGE.base_url
    judge_vote: Vote = _JUDGE.vote
    judge_ask: Literal["always", "unproven"] = _JUDGE.ask
    judge_rubric: str = _JUDGE.rubric
    judge_prices: str = _JUDGE.prices
    judge_budget: float | None = _JUDGE.budget
    judge_concurrency: int = _JUDGE.concurrency
    judge_backlog: int = _JUDGE.backlog
    judge_evidence_tokens: int = _JUDGE.evidence_tokens
    judge_max_tokens: int = _JUDGE.max_tokens
    judge_temperature: float | None = _JUDGE.temperature
    judge_timeout: float = _JUDGE.timeout
    judge_attempts: int = _JUDGE.attempts
    judge_cache: str = _JUDGE.cache
    rewards: Rewards = _JUDGE.rewards
    think: str = ""  # seconds, as in "1:5"; empty: none
    script: str = ""  # the file of policy `scripted`
    replay: str = ""  # the run folder whose replies policy `replay` says again
    model: str = ""  # a model's name at its server; of `local` and `vllm` its Hugging Face folder
    tokens: str = ""  # a Hugging Face directory whose tokens other policies' replies are logged in
    base_url: str = ""  # empty: OPENAI_BASE_URL, else OpenAI's
    client: Literal["lean", "package"] = "lean"
    temperature: float | None = None  # None: the server's default
    top_p: float | None = None  # None: the server's default
    max_tokens: int | None = None  # of one reply; None: the server's default
    request_timeout: float = 120.0  # seconds for one attempt
    max_attempts: int = 8
    bus: str = ""  # mqtt://… or mqtts://…; empty: this process only
    mqtt: MqttSettings = MqttSettings()
    awm: str = ""  # a folder of AWM's jsonl files, where the scenarios are; empty: the catalogue
    seeding: Seeding = "awm"  # how AWM records are seeded
    isolate: bool = False  # packages of ours run in workers, too
    workers: int | None = None  # processes for code that is not ours; None: one a core
    worker_memory_mb: int = 2048  # of one worker, at most
    sandbox: Literal["best", "required"] = "best"  # required: refuse to run below the full sandbox
    pool: str = ""  # http://host:port of `rehearse serve`, where the worlds are; empty: here
    mcp: str = ""  # URL or command of an MCP server that is the world; empty: none
    mcp_env: tuple[str, ...] = ()  # variables that such a command inherits, by name


def resolve(config: Path | None, flags: Mapping[str, Any]) -> Settings:
    """The settings from a file and flags (None: not given). Raises SettingsError naming file and
    field."""
    table = {} if config is None else _table(config)
    table.pop("environment", None)  # what run.toml says beside the settings
    return resolve_table(table, flags, place=f"{config}: " if config else "")


def resolve_table(table: Mapping[str, Any], flags: Mapping[str, Any], *, place: str) -> Settings:
    """The settings from a table and flags (None: not given); `place` stands before the names of
    the table's fields. Raises SettingsError.

    Example: {"max_steps": "x"}, place "[rollouts] " -> [rollouts] max_steps: expected `int`, …
    """
    given = {name: value for name, value in flags.items() if value is not None and value != ()}
    if table:
        _converted(table, place)
    settings = _converted({**table, **given}, "" if given else place)
    _check(settings)
    return settings


def saved(
    settings: Settings, *, packages: Mapping[str, str], log_id: str = "", sandbox: str = ""
) -> bytes:
    """run.toml: the settings, and what they were run with. It bears no password.

    `log_id` names the run's log for those who follow it over a broker; `sandbox` is what held the
    code that is not ours (empty: there was none).
    """
    public = msgspec.structs.replace(
        settings,
        bus=MqttSettings(url=settings.bus).public().url if settings.bus else "",
        mqtt=msgspec.structs.replace(settings.mqtt.public(), password=""),
    )
    table = {
        name: value for name, value in msgspec.to_builtins(public).items() if value is not None
    }
    table["environment"] = {
        "rehearsal": version("rehearsal"),
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "packages": dict(packages),
        "log_id": log_id,
    } | ({"sandbox": sandbox} if sandbox else {})
    return tomli_w.dumps(table).encode()


def stops_with_world(settings: Settings) -> bool:
    """Whether a call in which the world fails ends the episode."""
    if settings.world_stop is None:
        return settings.policy != "scripted"
    return settings.world_stop


def log_id_of(run_toml: Path) -> str:
    """Under which name the run's log is followed. Raises SettingsError."""
    return str(_table(run_toml).get("environment", {}).get("log_id") or run_toml.parent.name)


_WHERE_AND_HOW_FAST = frozenset(
    {
        *("concurrency", "bus", "mqtt", "max_attempts", "request_timeout", "client"),
        *("pool", "workers", "worker_memory_mb", "sandbox"),
        *("judge_concurrency", "judge_backlog", "judge_budget", "judge_prices", "judge_base_url"),
        *("judge_timeout", "judge_attempts", "judge_cache"),
    }
)


def judge_settings(settings: Settings) -> JudgeSettings:
    """The settings of the run's judge. Raises SettingsError where there is none."""
    if settings.judge == "none":
        raise SettingsError("judge: the run has no judge")
    given = {
        name: getattr(settings, f"judge_{name}")
        for name in JudgeSettings.__struct_fields__
        if name not in ("mode", "rewards", "seed")
    }
    judge = JudgeSettings(
        mode=settings.judge, rewards=settings.rewards, seed=settings.seed, **given
    )
    return checked(judge, prefix="judge_")


def difference(saved_file: Path, settings: Settings) -> str | None:
    """The first setting in which a run that shall go on differs from the one that began; None
    when they agree. Where and how fast it runs may differ."""
    before = resolve(saved_file, {})
    for name in Settings.__struct_fields__:
        if name in _WHERE_AND_HOW_FAST:
            continue
        old, new = getattr(before, name), getattr(settings, name)
        if old != new:
            return f"{name}: the run began with {old!r}, not {new!r}"
    return None


def choices_of(field: str) -> tuple[str, ...]:
    """The words that a setting may be; empty where it may be anything."""
    return get_args(get_type_hints(Settings).get(field))


def think_range(text: str) -> tuple[float, float]:
    """The bounds of a think time. Raises SettingsError.

    Example: "1:5" -> (1.0, 5.0)
    Example: "2" -> (2.0, 2.0)
    """
    low, _, high = text.partition(":")
    try:
        bounds = float(low), float(high or low)
    except ValueError:
        raise SettingsError(f"think: {text!r} is no range of seconds such as 1:5") from None
    if not 0 <= bounds[0] <= bounds[1] < float("inf"):
        raise SettingsError(f"think: {text!r} is no range of seconds such as 1:5")
    return bounds


def swept(settings: Settings, sweep: str) -> tuple[str, list[tuple[int, Settings]]]:
    """A setting's name, and the settings with each of its values. Raises SettingsError.

    Example: "concurrency=64,256" -> ("concurrency", [(64, …), (256, …)])
    """
    name, _, values = sweep.partition("=")
    name = name.replace("-", "_")
    if name not in ("concurrency", "group_size", "episodes", "max_steps"):
        raise SettingsError(f"--sweep: {name!r} is none of concurrency, episodes, group_size")
    try:
        numbers = [int(value) for value in values.split(",")]
    except ValueError:
        raise SettingsError(f"--sweep: {values!r} is no list of whole numbers") from None
    return name, [(number, _checked(settings, name, number)) for number in numbers]


def _checked(settings: Settings, name: str, value: int) -> Settings:
    changed = msgspec.structs.replace(settings, **{name: value})
    _check(changed)
    return changed


def _table(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as exc:
        raise SettingsError(f"{path}: the settings cannot be read: {exc}") from exc
    except tomllib.TOMLDecodeError as exc:
        raise SettingsError(f"{path}: not valid TOML: {exc}") from exc


def _converted(table: Mapping[str, Any], place: str) -> Settings:
    try:
        return msgspec.convert(dict(table), Settings)
    except msgspec.ValidationError as exc:
        field, fault = field_of(str(exc))
        if fault.startswith("invalid enum value"):
            fault += f"; it is one of {', '.join(choices_of(field))}"
        raise SettingsError(f"{place}{field}: {fault}" if field else f"{place}{fault}") from exc


def _check(settings: Settings) -> None:
    for name in ("group_size", "concurrency", "max_steps"):
        if getattr(settings, name) < 1:
            raise SettingsError(f"{name}: must be at least 1, not {getattr(settings, name)}")
    for name in ("time_limit", "reply_timeout", "call_timeout", "token_limit"):
        value = getattr(settings, name)
        if value is not None and value <= 0:
            raise SettingsError(f"{name}: must be more than 0, not {value}")
    if settings.workers is not None and not 1 <= settings.workers <= MAX_WORKERS:
        raise SettingsError(f"workers: must be from 1 to {MAX_WORKERS}, not {settings.workers}")
    if settings.worker_memory_mb < 256:
        raise SettingsError(
            f"worker_memory_mb: must be at least 256, not {settings.worker_memory_mb}"
        )
    if settings.pool and settings.mcp:
        raise SettingsError("mcp: a world is an MCP server or leased from a pool, not both")
    if settings.think:
        think_range(settings.think)
    if settings.policy == "scripted" and not settings.script:
        raise SettingsError("script: policy 'scripted' needs a file of calls")
    if settings.judge != "none":
        judge_settings(settings)
    if settings.policy == "replay" and not settings.replay:
        raise SettingsError("replay: policy 'replay' needs the folder of a run")
    if settings.policy == "openai" and not settings.model:
        raise SettingsError("model: policy 'openai' needs the name of a model")
    if settings.policy in ("local", "vllm") and not settings.model:
        raise SettingsError(f"model: policy {settings.policy!r} needs a Hugging Face directory")
    if settings.tokens and settings.policy in ("local", "vllm"):
        raise SettingsError(f"tokens: policy {settings.policy!r} tells those of its own model")
