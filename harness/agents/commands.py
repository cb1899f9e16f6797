"""An agent that is a command: one process an episode, in an empty folder of its own.

It finds its episode in its environment:

    REHEARSE_TASK       a file: the task and the tools, as JSON
    REHEARSE_PROMPT     a file: the rules and the instruction, as text
    REHEARSE_ANSWER     a file to write the answer to; without it, what it prints is the answer
    REHEARSE_MCP_URL    the world's tools (MCP, streamable HTTP)
    REHEARSE_MODEL_URL  the model, where the run names one; REHEARSE_MODEL is its name
    OPENAI_BASE_URL, OPENAI_API_KEY, OPENAI_MODEL, ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY,
    ANTHROPIC_MODEL     the same, as clients of these APIs read it
    OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_PROTOCOL
                        where its spans go, unless the user sends them elsewhere

In a dialogue the world has the tool `talk_to_user`. A status other than 0, an empty answer and a
limit that it breaks are failures of the agent.
"""

import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Self

import anyio
import anyio.to_thread
import msgspec
from anyio import AsyncContextManagerMixin

from rehearsal_room.envpool.core.own_folder import own_folder
from rehearsal_room.harness.agents.agent_env import AgentEnv, TaskView
from rehearsal_room.harness.agents.driver import AgentFailed
from rehearsal_room.harness.agents.gateway import AgentGateway
from rehearsal_room.harness.agents.otlp_requests import span_protocol
from rehearsal_room.harness.agents.processes import KEY, AgentProcesses, ProcessLimits, Ran
from rehearsal_room.harness.agents.typed_schemas import typed_tools
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.events import AgentOutput
from rehearsal_room.harness.core.terminal_text import printable
from rehearsal_room.harness.settings.agent import AgentSettings

_INHERITED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TZ", "USER")
_COLLECTORS = {"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"}
_MAX_ANSWER = 1 << 20  # bytes of the answer's file that are read
_MAX_WORDS = 300  # characters of standard error in a sentence


class CommandAgent(AsyncContextManagerMixin):
    """A command as an agent function. Open inside of its `async with` block, which ends all its
    processes. `gateway` is the run's; `hidden` is a folder that an isolated agent does not see."""

    def __init__(
        self, settings: AgentSettings, gateway: AgentGateway, hidden: Path | None = None
    ) -> None:
        self._hidden = None if hidden is None else hidden.absolute()
        self._settings = settings
        self._gateway = gateway
        self._processes = AgentProcesses()
        self._limits = ProcessLimits(settings.memory_mb << 20, settings.disk_mb << 20)
        self._start = Path.cwd()
        self._folders = Path()  # with the folders of all episodes; set while this is open

    def __repr__(self) -> str:
        return f"<CommandAgent {self._settings.target!r}>"

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        with own_folder("agents") as folders:
            self._folders = folders
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._processes.watch)
                yield self
                tasks.cancel_scope.cancel()

    async def __call__(self, task: TaskView, env: AgentEnv) -> str:
        """Run the command for one episode, and return its answer. Raises AgentFailed."""
        make = partial(tempfile.mkdtemp, prefix=f"{task.episode}-", dir=self._folders)
        folder = Path(await anyio.to_thread.run_sync(make))
        try:
            return await self._run(task, env, folder)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(partial(shutil.rmtree, folder, ignore_errors=True))

    async def _run(self, task: TaskView, env: AgentEnv, folder: Path) -> str:
        work, given = folder / "work", folder / "given"
        work.mkdir()
        given.mkdir()
        (given / "task.json").write_bytes(_task_file(task, env))
        (given / "prompt.txt").write_text(prompt_of(task), "utf-8")
        environment = self._environment(task, folder)
        episode_gateway = self._gateway.at(task.key)
        until = episode_gateway.answered if self._settings.answer == "tool" else anyio.Event()
        began = time.perf_counter()

        def keep(ran: Ran) -> None:
            spent = time.perf_counter() - began
            env.record(AgentOutput(ran.stdout, ran.stderr, ran.status, ran.left_out, spent))

        ran = await self._processes.run(
            self._command(folder),
            environment=environment,
            folder=work,
            limits=self._limits,
            until=until,
            keep=keep,
        )
        if episode_gateway.answer is not None:
            return episode_gateway.answer
        return self._answer_of(ran, work / "answer.txt")

    def _command(self, folder: Path) -> list[str]:
        # The shell's limit is for one file, in blocks of 512 bytes; the folder's size is watched.
        command = with_full_paths(self._settings.target, self._start)
        limited = f"ulimit -c 0; ulimit -f {self._limits.disk // 512}; {command}"
        shell = ["/bin/sh", "-c", limited]
        if self._settings.isolation == "bubblewrap":
            return [*bubblewrap(folder, self._start, self._hidden), *shell]
        return shell

    def _environment(self, task: TaskView, folder: Path) -> dict[str, str]:
        names = {*_INHERITED, *self._settings.env}
        inherited = {name: os.environ[name] for name in names if name in os.environ}
        given, work = folder / "given", folder / "work"
        found = {
            KEY: task.key,
            "REHEARSE_ANSWER": str(work / "answer.txt"),
            "REHEARSE_EPISODE": task.episode,
            "REHEARSE_MCP_URL": task.mcp_url,
            "REHEARSE_PROMPT": str(given / "prompt.txt"),
            "REHEARSE_START": str(self._start),
            "REHEARSE_TASK": str(given / "task.json"),
            "TMPDIR": str(work),
        }
        if task.model:
            found |= {
                "ANTHROPIC_API_KEY": task.key,
                "ANTHROPIC_BASE_URL": task.anthropic_url,
                "ANTHROPIC_MODEL": task.model,
                "OPENAI_API_KEY": task.key,
                "OPENAI_BASE_URL": task.model_url,
                "OPENAI_MODEL": task.model,
                "REHEARSE_MODEL": task.model,
                "REHEARSE_MODEL_URL": task.model_url,
            }
        usual = {"PYTHONPATH": str(self._start)}
        if not inherited.keys() & _COLLECTORS:
            usual["OTEL_EXPORTER_OTLP_PROTOCOL"] = span_protocol()
            found["OTEL_EXPORTER_OTLP_ENDPOINT"] = task.otlp_url
        return usual | inherited | found

    def _answer_of(self, ran: Ran, file: Path) -> str:
        """The answer that a process left. Raises AgentFailed."""
        if ran.fault:
            raise AgentFailed(f"the command was stopped: {ran.fault}")
        if ran.status != 0:
            raise AgentFailed(f"the command {_how_it_ended(ran.status)}{_last_words(ran.stderr)}")
        answer = ran.stdout
        if file.is_file() and not file.is_symlink():
            with file.open("rb") as written:
                answer = written.read(_MAX_ANSWER).decode(errors="replace")
        elif self._settings.answer == "tool":
            raise AgentFailed("the command ended and never called give_answer")
        if not answer.strip():
            where = "printed nothing, and wrote no $REHEARSE_ANSWER"
            raise AgentFailed(f"the command {where}{_last_words(ran.stderr)}")
        return answer.strip()


def with_full_paths(command: str, start: Path) -> str:
    """A command in which each word that is a file in the folder of the run's start is its full
    path, since the command runs in another folder.

    Example: "python bot.py --fast" in /home/ada -> "python /home/ada/bot.py --fast"
    """

    def full(word: re.Match[str]) -> str:
        path = start / word[0]
        return shlex.quote(str(path)) if path.is_file() else word[0]

    return re.sub(r"(?<![^\s;|&()<>])[\w.][\w./@+-]*(?![^\s;|&()<>])", full, command)


def prompt_of(task: TaskView) -> str:
    """The task as one text: who asks, when, the rules, and the instruction."""
    parts = [f"You act for {task.user}." if task.user else "", task.rules, task.instruction]
    if task.now:
        parts.insert(1, f"It is {task.now}.")
    return "\n\n".join(filter(None, parts)) + "\n"


def _task_file(task: TaskView, env: AgentEnv) -> bytes:
    tools = [
        {"name": tool.name, "description": tool.description, "inputSchema": tool.schema}
        for tool in typed_tools(list(env.tools))
    ]
    return msgspec.json.encode({**msgspec.to_builtins(task), "tools": tools})


def _how_it_ended(status: int | None) -> str:
    if status is not None and status < 0:
        with suppress(ValueError):
            return f"was ended by {signal.Signals(-status).name}"
    return f"ended with status {status}"


def _last_words(errors: str) -> str:
    """The end of standard error for a sentence; empty where it is."""
    words = " ".join(errors.split())[-_MAX_WORDS:]
    return f"; its last words: {printable(words, one_line=True)}" if words else ""


def check_command(settings: AgentSettings) -> None:
    """Refuse a command whose program is not there. Raises SettingsError."""
    try:
        words = shlex.split(settings.target)
    except ValueError as exc:
        raise SettingsError(f"agent: the command cannot be read: {exc}") from exc
    program = next((word for word in words if "=" not in word), "")
    plain = not set(program) & set("$`(){}<>|&;*?~")
    if not program:
        raise SettingsError("agent: the command is empty")
    if plain and shutil.which(program) is None and program not in _BUILT_IN:
        raise SettingsError(
            f"agent: there is no program {program!r}, and no function of that name (expected "
            "MODULE:FUNCTION, a command or a URL)"
        )
    if not Path("/proc/self/stat").exists():
        raise SettingsError(
            "agent: a command is watched by /proc, which this system does not have; name a "
            "function or a URL"
        )
    if settings.isolation == "bubblewrap" and shutil.which("bwrap") is None:
        raise SettingsError(
            "agent_isolation: bwrap is not installed; install bubblewrap, or leave it out"
        )


_BUILT_IN = (
    *("cd", "exec", "exit", "echo", "printf", "export", "set", "test", "true", "false", ":"),
    *("for", "if", "while", "until", "case", "trap", "ulimit", "umask", ".", "!"),
)


def bubblewrap(folder: Path, start: Path, hidden: Path | None = None) -> list[str]:
    """The beginning of a command that holds an agent: it writes to its own folder, sees the
    system's programs and libraries, the interpreter and the folder of the run's start, and no
    process but its own, and neither a folder of another episode nor the run's (`hidden`), wherever
    the run was started. It has the network, since its world and its model are there."""
    system = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/opt")
    own = (sys.prefix, sys.base_prefix, str(start))
    read = [word for path in (*system, *own) for word in ("--ro-bind-try", path, path)]
    work, given = str(folder / "work"), str(folder / "given")
    masked = [folder.parent]
    if hidden is not None and any(Path(path) in hidden.parents for path in (*system, *own)):
        masked.append(hidden)
    return [
        *("bwrap", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
        *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
        *("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),  # nosec B108 # inside, empty
        *read,
        *(word for path in masked for word in ("--tmpfs", str(path))),
        *("--ro-bind", given, given, "--bind", work, work),
        *("--setenv", "HOME", work, "--chdir", work, "--"),
    ]
