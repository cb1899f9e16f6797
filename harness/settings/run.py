"""The settings of a run: nested structs, one TOML file, one flag for each field.

A flag wins over the file given with --config, which wins over the default. The resolved settings
are saved as run.toml beside the result and can be given to --config again. Where a model or its URL
is named and no policy, that model plays.
"""

import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import apsw
import msgspec
import tomli_w
from msgspec import Meta

from rehearsal_room.envpool.client.url import url_fault
from rehearsal_room.harness.admission.limits import MOST_AT_ONCE
from rehearsal_room.harness.bus.mqtt_settings import BusSettings
from rehearsal_room.harness.core.errors import NoModelError, SettingsError
from rehearsal_room.harness.dialects.format_rules import FormatSettings
from rehearsal_room.harness.settings.agent import AgentSettings, require_agent_formats
from rehearsal_room.harness.settings.branch import BranchSettings
from rehearsal_room.harness.settings.cluster import ClusterSettings
from rehearsal_room.harness.settings.fields import Field, field_at, fields_of, value_of
from rehearsal_room.harness.settings.judge import (
    JudgeSettings,
    is_used,
    require_models,
)
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.harness.settings.mcp import check_mcp
from rehearsal_room.harness.settings.model import ModelSettings
from rehearsal_room.harness.settings.policy import MODEL_POLICIES, PolicySettings, think_range
from rehearsal_room.harness.settings.profile import with_profile
from rehearsal_room.harness.settings.tables import convert, merge, nest, without_none
from rehearsal_room.harness.settings.user import UserSettings
from rehearsal_room.harness.settings.worlds import WorldSettings
from rehearsal_room.scenarios import distribution
from rehearsal_room.scenarios.files import read_toml
from rehearsal_room.scenarios.suites.catalogue import SUITES
from rehearsal_room.scenarios.validation import explain

_DEFAULT_JUDGE = JudgeSettings()
# Keys that older versions knew, and wrote into each run.toml.
_GONE_FROM_BUS = (
    *("ahead", "answer_s", "batch", "gather_s"),
    *("in_flight", "max_backoff_s", "outbox", "status_s"),
)
_SIZE_OF_PLAN = ("episodes", "group_size")
NUMBER_AT_ONCE = 64  # (said below, too) episodes, where a number is not given and not found
ADAPTIVE_POLICIES = ("openai", "vllm")  # behind HTTP: the server has a load to adapt to


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of a run."""

    scenarios: Annotated[
        tuple[str, ...],
        Meta(
            description="Scenarios to run, each as NAME, PATH, NAME:TASK or PATH:TASK.",
            extra={"flag": ""},
        ),
    ] = ()
    allow: Annotated[
        str,
        Meta(
            description="File of the scenarios and tasks that passed the quality gate; nothing "
            "else is run. `rehearse worlds check --allow-list` writes it.",
            extra={"metavar": "FILE", "default": "everything may be run"},
        ),
    ] = ""
    exclude: Annotated[
        tuple[str, ...],
        Meta(
            description="Task to leave out, as TASK or SCENARIO:TASK, an entry of a benchmark by "
            "its own id; or a file with one in each line. May be repeated.",
            extra={"metavar": "ID|FILE"},
        ),
    ] = ()
    dialogue: Annotated[
        bool,
        Meta(
            description="Play the dialogues of the scenarios, too: tasks whose user answers the "
            "agent. Without it they are played by name only (NAME:TASK)."
        ),
    ] = False
    episodes: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(
            description="Number of episodes in all; a run that is resumed may have more.",
            extra={"short": "-n", "default": "one group of each task"},
        ),
    ] = None
    task_order: Annotated[
        Literal["listed", "sampled"] | None,
        Meta(
            description="Order of the tasks of the scenarios: as they are listed, or sampled "
            "across each of them, always in the same way.",
            extra={"default": "sampled where --episodes is less than one group of each task"},
        ),
    ] = None  # of a run that is saved: as they are listed
    group_size: Annotated[
        int,
        Meta(
            ge=1,
            description="Number of episodes in a group, which all have the same task.",
            extra={"short": "-g"},
        ),
    ] = 1
    branch: Annotated[
        BranchSettings,
        Meta(
            description="Groups whose episodes branch from each other.",
            extra={"prefix": "branch_"},
        ),
    ] = BranchSettings()
    concurrency: Annotated[
        Annotated[int, Meta(ge=1)] | Literal["auto"] | None,
        Meta(
            description="Maximum number of episodes that run at the same time; `auto` finds it "
            "from how the model server answers. With a policy that asks no server, and in "
            "training, auto is 64.",
            extra={
                "short": "-c",
                "metavar": "N|auto",
                "default": "auto with policies openai and vllm, else 64",
                "may_change": True,
            },
        ),
    ] = None
    processes: Annotated[
        int,
        Meta(
            ge=1,
            le=256,
            description="Number of processes that play the episodes; each plays its share of "
            "--concurrency.",
            extra={"may_change": True},
        ),
    ] = 1
    process_timeout: Annotated[
        float,
        Meta(
            ge=1,
            description="Seconds without a heartbeat after which one of several processes is "
            "killed and replaced.",
            extra={"may_change": True},
        ),
    ] = 30.0
    cluster: Annotated[
        ClusterSettings, Meta(description="What runs the processes that play the episodes.")
    ] = ClusterSettings()
    seed: Annotated[int, Meta(description="Seed of all random choices.")] = 0
    forked_from: Annotated[
        str,
        Meta(
            description="Begin every episode after the first TURN turns of a logged episode, in "
            "its task and with the settings of its run unless other ones are given.",
            extra={
                "flag": "from",
                "metavar": "RUN/EPISODE@TURN",
                "default": "episodes begin at the start",
            },
        ),
    ] = ""
    edit: Annotated[
        str,
        Meta(
            description="What a fork changes before it goes on, as a JSON object or a file of it: "
            "another instruction, or turns in the agent's name, with results that their calls get.",
            extra={"metavar": "FILE|JSON", "default": "nothing is changed"},
        ),
    ] = ""
    unit: Annotated[
        Literal["task", "world"] | None,
        Meta(
            description="Unit of the intervals: task (they are about further tasks of these "
            "worlds) or world (about other worlds, too).",
            extra={
                "default": "world where there are eight worlds with ten tasks, else task",
                "may_change": True,
            },
        ),
    ] = None
    chaos: Annotated[
        str,
        Meta(
            description="File of faults to inject on purpose: into the model server, tools, "
            "workers, processes, bus and disk.",
            extra={"metavar": "FILE", "default": "no faults", "may_change": True},
        ),
    ] = ""
    history: Annotated[
        str,
        Meta(
            description="Part of the episode that the model is shown: full, last:W, last:W+S, "
            "tokens:N, retrieve:K, summary:N, summary:N-M or fold.",
            extra={"metavar": "POLICY"},
        ),
    ] = "full"
    dialect: Annotated[
        Literal[
            "native",
            "hermes",
            "awm",
            "awm-tool",
            "agentdojo",
            "bfcl",
            "enterpriseops",
            "mcp_universe",
            "tau2",
            "toolsandbox",
            "vita",
            "awm-release",
            "awm-release-tool",
        ],
        Meta(
            description="Format in which the model is shown tools and calls them; agentdojo, bfcl, "
            "enterpriseops, mcp_universe, tau2, toolsandbox, vita and awm-release (see --profile) "
            "are what these projects' own runners send."
        ),
    ] = "native"
    policy: Annotated[
        PolicySettings,
        Meta(description="Policy that acts in each episode.", extra={"keys": {"name": "policy"}}),
    ] = PolicySettings()
    agent: Annotated[
        AgentSettings,
        Meta(
            description="An agent of your own that plays in place of the policy.",
            extra={"prefix": "agent_", "keys": {"target": "agent"}},
        ),
    ] = AgentSettings()
    model: Annotated[
        ModelSettings,
        Meta(description="The policy's model.", extra={"keys": {"name": "model"}}),
    ] = ModelSettings()
    user: Annotated[
        UserSettings,
        Meta(
            description="The model that plays users.",
            extra={"prefix": "user_", "keys": {"name": "user_model"}},
        ),
    ] = UserSettings()
    limits: Annotated[Limits, Meta(description="Limits at which an episode is stopped.")] = Limits()
    format: Annotated[
        FormatSettings,
        Meta(description="Rules for the form of the model's replies.", extra={"prefix": "format_"}),
    ] = FormatSettings()
    judge: Annotated[
        JudgeSettings,
        Meta(
            description="The judge of the episodes.",
            extra={
                "prefix": "judge_",
                "keys": {
                    "mode": "judge",
                    "rewards": "rewards",
                    "profile": "profile",
                    "awm_code": "awm_code",
                },
            },
        ),
    ] = _DEFAULT_JUDGE
    worlds: Annotated[
        WorldSettings, Meta(description="Source of the worlds, and how they are hosted.")
    ] = WorldSettings()
    bus: Annotated[
        BusSettings,
        Meta(
            description="Broker on which the run is published; without a url, the run is not "
            "published.",
            extra={
                "prefix": "bus_",
                "keys": {"url": "bus"},
                "flags": ("url",),
                "may_change": True,
            },
        ),
    ] = BusSettings()

    @property
    def is_adaptive(self) -> bool:
        """Whether the number of episodes at once follows from how the model server answers."""
        return self.concurrency == "auto" and self.policy.name in ADAPTIVE_POLICIES

    @property
    def dialect_name(self) -> str:
        """The dialect as logs name it: mcp_universe has the limit of steps, of which it speaks."""
        most = self.limits.max_steps
        return f"mcp_universe:{most}" if self.dialect == "mcp_universe" else self.dialect

    @property
    def player(self) -> str:
        """Who plays, as folders of runs are named: the user's own agent, or the policy."""
        return self.agent.shown_name if self.agent.target else self.policy.name

    @property
    def number_at_once(self) -> int:
        """The number of episodes at once where it stays the same: the one given, or the usual."""
        return self.concurrency if isinstance(self.concurrency, int) else NUMBER_AT_ONCE

    @property
    def max_concurrency(self) -> int:
        """The most episodes that ever run at once."""
        return MOST_AT_ONCE if self.is_adaptive else self.number_at_once


def saved(run_toml: Path) -> Settings:
    """The settings in a run's run.toml. Raises SettingsError."""
    return resolve(run_toml, {}, own=True)


def resolve(config: Path | None, flags: Mapping[str, Any], *, own: bool = False) -> Settings:
    """The settings from a file and flags, by their keys at the top (None: not given); `own`: it is
    the file of a run's folder (see scenarios.files.read_toml). Raises SettingsError naming file and
    field."""
    if config is None:
        return resolve_table({}, flags)
    table = read_toml(config, error=SettingsError, own=own)
    environment = table.pop("environment", None)  # what run.toml contains beside the settings
    if environment is not None and isinstance(bus := table.get("bus"), Mapping):
        table["bus"] = {key: value for key, value in bus.items() if key not in _GONE_FROM_BUS}
    if own and flags.get("forked_from"):
        table.pop("branch", None)  # of a run whose groups branch: its forks do not
    source = f"{config}: "
    _refuse_gone(table, source)
    nested = nest(table, Settings, source=source)
    model, policy = nested.get("model"), nested.get("policy", {})
    if isinstance(model, dict) and isinstance(policy, dict) and "name" not in policy:
        table = {**table, "policy": {**policy, **_policy_of_model(model)}}
    return resolve_table(table, flags, source=source)


def resolve_table(
    table: Mapping[str, Any], flags: Mapping[str, Any], *, source: str = ""
) -> Settings:
    """The settings from a table and flags (None: not given); `source` is in front of the messages
    about the table. Raises SettingsError.

    Example: {"max_steps": "x"}, source "[rollouts] " -> [rollouts] max_steps: expected a whole
    number, found 'x'
    """
    given = {key: value for key, value in flags.items() if value is not None and value != ()}
    if given.get("agent") == "":
        raise SettingsError(
            "agent: the agent is empty (expected MODULE:FUNCTION, a command or a URL)"
        )
    _refuse_gone(table, source)
    nested = nest(table, Settings, source=source)
    if given:
        convert(nested, Settings, written=table, source=source)
    above = nest(given, Settings)
    merged = merge(nested, above)
    if "model" in above and "policy" not in given and not _plays_model(merged):
        merged = merge(merged, {"policy": _policy_of_model(above["model"])})
    if merged.get("agent", {}).get("target") and "name" not in merged.get("policy", {}):
        merged = merge(merged, {"policy": {"name": "agent"}})
    merged = with_profile(merged)
    source = "" if given else source
    settings = convert(
        merged, Settings, written={**table, **given}, flags=frozenset(given), source=source
    )
    _check(settings)
    if settings.concurrency is None and settings.policy.name in ADAPTIVE_POLICIES:
        return msgspec.structs.replace(settings, concurrency="auto")
    return settings


def _refuse_gone(table: Mapping[str, Any], source: str) -> None:
    bus = table.get("bus")
    for key in _GONE_FROM_BUS:
        in_table = isinstance(bus, Mapping) and key in bus
        if in_table or f"bus_{key}" in table:
            written = f"bus.{key}" if in_table else f"bus_{key}"
            raise SettingsError(f"{source}{written}: this key is gone; leave it out")


def _plays_model(table: Mapping[str, Any]) -> bool:
    return table.get("policy", {}).get("name") in MODEL_POLICIES


def _policy_of_model(model: Mapping[str, Any]) -> dict[str, str]:
    """The policy that plays a model that is named, by its name or by its URL; empty: none is.

    Example: {"name": "gpt-5"} -> {"name": "openai"}; the folder of a model -> {"name": "local"}
    """
    name, url = model.get("name"), model.get("base_url")
    if isinstance(name, str) and name and not url and (Path(name) / "config.json").is_file():
        return {"name": "local"}
    return {"name": "openai"} if name or url else {}


def save(
    settings: Settings, *, packages: Mapping[str, str], log_id: str = "", sandbox: str = ""
) -> bytes:
    """run.toml: the settings, and what they were run with. No password is in it.

    `log_id` names the run's log for those who follow it over a broker; `sandbox` is the level of
    the sandbox that held untrusted code (empty: there was none).
    """
    table = without_none(msgspec.to_builtins(_without_password(settings)))
    table["environment"] = {
        "rehearsal": distribution.version(),
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "packages": dict(packages),
        "log_id": log_id,
    } | ({"sandbox": sandbox} if sandbox else {})
    return tomli_w.dumps(table).encode()


def with_plan(run_toml: Path, settings: Settings) -> bytes:
    """run.toml with the number of episodes of these settings, and their group size. Raises
    SettingsError."""
    table = read_toml(run_toml, error=SettingsError, own=True)
    planned = {"episodes": settings.episodes, "group_size": settings.group_size}
    return tomli_w.dumps({**table, **without_none(planned)}).encode()


def with_adaptations(run_toml: Path, words: Sequence[str]) -> bytes:
    """run.toml with what its run has learned of the model server. Raises SettingsError."""
    table = read_toml(run_toml, error=SettingsError, own=True)
    return tomli_w.dumps({**table, "model": {**table.get("model", {}), "adapt": words}}).encode()


def _without_password(settings: Settings) -> Settings:
    bus = settings.bus.public() if settings.bus.url else settings.bus
    return msgspec.structs.replace(settings, bus=msgspec.structs.replace(bus, password=""))


def log_id_of(run_toml: Path) -> str:
    """The name under which the run's log is followed. Raises SettingsError."""
    environment = read_toml(run_toml, error=SettingsError, own=True).get("environment", {})
    return str(environment.get("log_id") or run_toml.parent.name)


def difference(saved_file: Path, settings: Settings) -> str | None:
    """The first setting in which a run that is resumed differs from the run that began; None: they
    agree. Fields with `may_change` are not compared, and neither is the size of the plan (see
    harness.setup.planning)."""
    before = saved(saved_file)
    for field in fields_of(Settings):
        old, new = value_of(before, field), value_of(settings, field)
        if old != new and not field.may_change and field.key not in _SIZE_OF_PLAN:
            before_now = (_in_words(field, value) for value in (old, new))
            return f"{field.key}: the run began with {', not '.join(before_now)}"
    return None


def _in_words(field: Field, value: Any) -> str:
    return str(field.extra.get("default")) if value is None else repr(value)


def with_defaults_of(settings: Settings, run_toml: Path) -> Settings:
    """The settings, with what a saved run began with where they say nothing and the default
    depends on the tasks: the order of the tasks and the step limit. Raises SettingsError."""
    if not run_toml.is_file():
        return settings
    began = saved(run_toml)
    if settings.task_order is None:
        settings = msgspec.structs.replace(settings, task_order=began.task_order)
    if settings.limits.max_steps is None:
        limits = msgspec.structs.replace(settings.limits, max_steps=began.limits.max_steps)
        settings = msgspec.structs.replace(settings, limits=limits)
    return settings


def sweep(settings: Settings, text: str) -> tuple[str, list[tuple[Any, Settings]]]:
    """The key of a setting, and the settings with each of its values. Raises SettingsError.

    Example: "concurrency=64,256" -> ("concurrency", [(64, …), (256, …)])
    """
    name, _, values = text.partition("=")
    key = name.strip().replace("-", "_")
    field = field_at(Settings, key)
    if field is None or field.is_list:
        raise SettingsError(
            f"--sweep: {key!r} is not a setting with one value (for example concurrency, "
            "max_steps, temperature, model, history)"
        )
    return key, [_swept(settings, field, value.strip()) for value in values.split(",")]


def _swept(settings: Settings, field: Field, text: str) -> tuple[Any, Settings]:
    """One value of a sweep, and the settings with it."""
    kind = type(getattr(settings, field.table)) if field.table else Settings
    given = {field.name: text}
    try:
        value = getattr(msgspec.convert(given, kind, strict=False), field.name)
    except msgspec.ValidationError as exc:
        raise SettingsError(f"--sweep: {explain(exc, given, kind)}") from exc
    return value, resolve_table(msgspec.to_builtins(settings), {field.key: value})


def stops_with_world(settings: Settings) -> bool:
    """Whether a call in which the world fails ends the episode."""
    if settings.limits.world_stop is None:
        return settings.policy.name != "scripted"
    return settings.limits.world_stop


def judge_settings(settings: Settings) -> JudgeSettings:
    """The settings of the run's judge, whose seed is the run's unless it has its own.

    Raises SettingsError where the run has no judge, or no model to ask.
    """
    judge = settings.judge
    if judge.mode in ("none", "elsewhere"):
        raise SettingsError("judge: the run has no judge of its own")
    if judge.seed is None:
        judge = msgspec.structs.replace(judge, seed=settings.seed)
    return require_models(judge, prefix="judge_")


def _is_served(name: str) -> bool:
    """Whether the worlds of a suite are MCP servers."""
    return name in SUITES and not SUITES[name].adapter


def _check(settings: Settings) -> None:
    """Refuse fields that do not go together."""
    policy, model, worlds = settings.policy, settings.model, settings.worlds
    if worlds.pool and worlds.mcp:
        raise SettingsError("mcp: both mcp and pool are set; worlds come from one of them")
    if worlds.pool and (fault := url_fault(worlds.pool)):
        raise SettingsError(f"pool: {fault}")
    if settings.edit and not settings.forked_from:
        raise SettingsError(
            "edit: it changes how a fork goes on; name the fork: --from RUN/EPISODE@TURN"
        )
    _check_foreign(worlds, key="from" if settings.forked_from else "")
    _check_branches(settings)
    _check_agent(settings)
    check_mcp(worlds)
    if worlds.mcp_ask == "model" and policy.name not in MODEL_POLICIES:
        raise SettingsError(
            f"mcp_ask: policy {policy.name!r} asks no model that could answer the server; give "
            "--model or --base-url, or choose --mcp-ask user"
        )
    if worlds.suite_servers and not worlds.suite:
        raise SettingsError("suite_servers: servers are for a suite, which is not given")
    if policy.think:
        think_range(policy.think)
    if policy.name == "scripted" and not policy.script:
        raise SettingsError("script: policy 'scripted' needs a file of calls: --script FILE")
    if policy.name == "replay" and not policy.replay:
        raise SettingsError("replay: policy 'replay' needs the folder of a run: --replay RUN")
    if policy.name == "openai" and not model.name:
        raise NoModelError("model: policy 'openai' needs the name of a model: --model NAME")
    if policy.name in ("local", "vllm") and not model.name:
        raise SettingsError(
            f"model: policy {policy.name!r} needs a Hugging Face folder: --model DIR"
        )
    if policy.name in ("local", "vllm") and policy.tokens:
        raise SettingsError(
            f"tokens: policy {policy.name!r} logs its own model's tokens; leave tokens out"
        )
    if model.extra_fields and policy.name in ("local", "vllm"):
        raise SettingsError(f"extra_body: policy {policy.name!r} sends no chat requests")
    if model.stream and policy.name in ("local", "vllm"):
        raise SettingsError(
            f"stream: policy {policy.name!r} exchanges token ids, which it does not stream"
        )
    _check_judge(settings.judge)


def _check_branches(settings: Settings) -> None:
    """Refuse what does not go together with groups that branch."""
    has_verdicts = settings.judge.mode not in ("none", "elsewhere")
    settings.branch.check(settings.group_size, has_verdicts=has_verdicts)
    if not settings.branch.roots:
        return
    if settings.forked_from:
        raise SettingsError(
            "branch_roots: the episodes of a fork begin after logged turns, and cannot branch as "
            "well; leave --from or the branches out"
        )
    if settings.agent.target:
        raise SettingsError(
            "branch_roots: an agent of your own keeps its own memory, so it cannot begin after "
            "another episode's turns; leave it out"
        )
    if settings.processes > 1 or settings.cluster.engine != "local":
        raise SettingsError(
            "branch_roots: an episode waits for those it branches from, which one process plays; "
            "leave --processes out"
        )
    _check_foreign(settings.worlds, key="branch_roots")


def _check_agent(settings: Settings) -> None:
    """Refuse what does not go together with an agent of the user's own."""
    agent, policy = settings.agent, settings.policy.name
    if not agent.target:
        if policy == "agent":
            raise SettingsError("agent: policy 'agent' needs the agent: --agent AGENT")
        return
    if policy in ("human", "mutant"):
        raise SettingsError(
            f"agent: an agent cannot ask policy {policy!r} as its model; leave --policy out, or "
            "name a model"
        )
    if settings.forked_from:
        raise SettingsError(
            "from: an agent of your own keeps its own memory, so it cannot begin after logged "
            "turns; leave --from out"
        )
    require_agent_formats(settings.dialect, settings.history)
    if settings.history != "full" and policy == "agent":
        raise SettingsError(
            "history: the window is applied where the agent asks its model, and no model is "
            "named: give --model or --base-url, and let the agent use the URL that it gets"
        )
    if agent.env and agent.kind != "command":
        raise SettingsError("agent_env: variables are for a command, and the agent is none")
    if agent.isolation != "none" and agent.kind != "command":
        raise SettingsError("agent_isolation: only a command can be isolated")


def _check_foreign(worlds: WorldSettings, *, key: str) -> None:
    """Refuse what does not go together with the server of someone else's worlds. `key` is of the
    setting by which episodes begin in the middle; empty: none does."""
    if worlds.openenv:
        for other in ("mcp", "pool"):
            if getattr(worlds, other):
                raise SettingsError(
                    f"openenv: both openenv and {other} are set; worlds come from one of them"
                )
        if not worlds.openenv.startswith(("http://", "https://")):
            raise SettingsError(
                f"openenv: {worlds.openenv!r} is not a URL such as http://localhost:8000"
            )
    for name, url, kind in (
        ("mcp", "given" if worlds.mcp_servers else "", "an MCP server"),
        ("openenv", worlds.openenv, "an OpenEnv environment"),
        ("suite", worlds.suite if _is_served(worlds.suite) else "", "an MCP server"),
    ):
        if url and key:
            flag = key.replace("_", "-")
            raise SettingsError(
                f"{key}: the worlds of {kind} do not reveal their state, so no episode can begin "
                f"in the middle of another one; leave --{flag} out"
            )
        if url.startswith(("http://", "https://")) and "@" in url:
            raise SettingsError(
                f"{name}: the URL contains a user name or a password; put the server's token into "
                "the environment variable REHEARSE_TOKEN, and leave them out"
            )


def _check_judge(judge: JudgeSettings) -> None:
    """Refuse a judge that asks models and has none, or has some and asks none."""
    require_models(judge, prefix="judge_")
    for name in JudgeSettings.__struct_fields__:
        if is_used(name, judge) or getattr(judge, name) == getattr(_DEFAULT_JUDGE, name):
            continue
        raise SettingsError(
            f"judge_{name}: judge {judge.mode!r} does not ask models; choose --judge llm or "
            "--judge hybrid"
        )
