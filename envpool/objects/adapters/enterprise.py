"""The worlds and the scoring of EnterpriseOps-Gym (see scenarios.suites.enterpriseops), in its own
process.

A world is a database of its own in each of the task's MCP servers (gyms): it is seeded before the
first call, and deleted when the world is closed. Servers are reached and verifiers are run by the
checkout's own client, executor and engine, while the database lives. Its rows are read through the
gyms' SQL service, if that has SQLite's tables; otherwise the state is unknown.

A score of a log repeats the calls in new databases.
"""

import asyncio
import functools
import importlib
import json
import logging
import os
import sqlite3
import ssl
import sys
import types
from collections import Counter
from typing import Any

from .shared import Json, Question, Talk, finding, tool_specs

AUDIT = "changes that no verifier asks about"
_TABLES = (
    "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    " ORDER BY name"
)
_SEED = "seed_database_file"
_ANSWERED = "MCP request failed:"  # how upstream's client begins where a server answered
_MOST_ROWS = 300  # changed rows that an audit looks at
_SHOWN = 5  # of them, by name
_REMEMBERED = 64  # starts of worlds
_TEXT = 300  # characters of what a finding shows
Rows = dict[tuple[str, str, str], dict[str, Any]]  # by server, table and key


class World:
    """A task, and from its first call on the databases in which it is played."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.executor: Any = None  # upstream's, connected to the servers; None: nothing is seeded
        self.calls: list[dict[str, Any]] = []
        self.last = ""  # the text of the last result
        self.unknown = ""  # the first called name that belongs to no tool
        self.rows: Rows = {}  # at the time of the last look


class Gyms:
    """The suite."""

    def __init__(self, folder: str, tasks: str, version: str) -> None:
        """`folder`: of the checkout; `tasks`: that of its tasks."""
        sys.path.insert(0, folder)
        # Upstream's clients live for one request each, and each reads all certificates (20 ms).
        vars(ssl)["create_default_context"] = functools.cache(ssl.create_default_context)
        try:
            self.upstream = importlib.import_module("benchmark.executor")
            self.httpx: Any = importlib.import_module("httpx")
        except ModuleNotFoundError as exc:
            raise LookupError(
                f"the interpreter has no module {exc.name!r}: pip install httpx langchain-core in "
                "it, or name another one with --suite-python"
            ) from exc
        models = importlib.import_module("benchmark.models")
        self.make_config, self.no_model = models.BenchmarkConfig, models.LLMConfig("", "", "")
        llm_client = importlib.import_module("benchmark.llm_client").LLMClient
        self.schemas = object.__new__(llm_client)  # upstream's form of tools; it asks no model
        self.schemas.provider, self.schemas.use_responses_api = "vllm", False
        vars(self.upstream)["LLMClient"] = lambda *given, **named: Judge(None)
        logging.disable(logging.CRITICAL)
        self.version = version
        self.folders = (folder, tasks)
        self.loop = asyncio.new_event_loop()
        self.http = self.httpx.Client(timeout=60)
        self.starts: dict[str, Rows] = {}
        self.idle: list[tuple[dict[str, Any], Any]] = []  # tasks, and executors that worlds left
        self.tables: dict[str, dict[str, str]] = {}  # by server: the statements that make them

    def world(self, spec: dict[str, Any]) -> World:
        """A world of a task."""
        return World(spec["task"])

    def tools(self, spec: dict[str, Any]) -> list[dict[str, Any]]:
        """The tools of a task as a model is shown them."""
        executor = self._connected(spec["task"])
        made = executor.available_tools
        if not made:
            raise LookupError("the servers list none of the tools that the task selects")
        self._leave(spec["task"], executor)
        functions = [
            one["function"] for one in self.schemas._convert_mcp_tools_to_langchain(list(made))
        ]
        return tool_specs(functions)

    def call(self, world: World, name: str, arguments: dict[str, Any]) -> tuple[str, str | None]:
        """Make a call: the text that upstream shows to a model, and what kind of failure it is."""
        self._seed(world)
        world.calls.append({"tool_name": name, "arguments": arguments})
        server = world.executor.tool_to_server_mapping.get(name)
        if server is None:  # upstream's run is over, and is an error
            world.unknown = world.unknown or name
            return f"There is no tool {name!r}.", "unknown_tool"
        found = self._run(world.executor.mcp_clients[server].call_tool(name, arguments))
        if not found["success"] and not found["error"].startswith(_ANSWERED):
            raise ConnectionError(f"{server} did not answer a call of {name}: {found['error']}")
        result = found.get("result", {})
        world.last = json.dumps(result)
        failed = found.get("error") or (isinstance(result, dict) and result.get("isError"))
        return world.last, "refused" if failed else None

    def records(self, world: World) -> Any:
        """All rows of the databases."""
        self._seed(world)
        world.rows = self._rows(world)
        if not world.calls:
            self.starts[_key(world.config)] = world.rows
            if len(self.starts) > _REMEMBERED:
                self.starts.pop(next(iter(self.starts)))
        is_one = len(world.executor.mcp_clients) == 1
        for (server, table, key), row in world.rows.items():
            yield table if is_one else f"{server}.{table}", key, row

    def close(self, world: World) -> None:
        """Delete the databases."""
        if world.executor is None:
            return
        for name, client in world.executor.mcp_clients.items():
            if client.database_id:
                self.upstream.delete_database(_url(world.config, name), client.database_id)
                client.database_id = ""
        self._leave(world.config, world.executor)
        world.executor = None

    def check(self, world: World) -> list[Json]:
        """What the verifiers find in a world at its end. Those that ask a model are left open."""
        return self._findings(world, "", None)

    def questions(self, spec: Json, scoring: Json, talk: Talk) -> list[Question]:
        """What verifiers ask a model about an episode: all of it at once."""
        if scoring.get("answers") or not any(_asks(one) for one in spec["task"]["verifiers"]):
            return []
        return self._replayed(spec, talk, None)[1]

    def score(self, spec: Json, scoring: Json, talk: Talk) -> list[Json]:
        """What the verifiers find after the calls of an episode, made again."""
        return self._replayed(spec, talk, scoring.get("answers"))[0]

    def _replayed(
        self, spec: Json, talk: Talk, answers: list[str] | None
    ) -> tuple[list[Json], list[Question]]:
        """Findings and questions, from a world in which the calls were repeated."""
        world, unlike = self.world(spec), ""
        try:
            for step in talk:
                for call in step["calls"]:
                    text, _ = self.call(world, call["name"], call["arguments"])
                    if not unlike and text != call["text"]:
                        unlike = f"{call['name']} answered otherwise: {text[:_TEXT]}"
            last: dict[str, Any] = talk[-1] if talk else {"calls": [], "text": ""}
            final = world.last if last["calls"] else last["text"] or ""
            findings = self._findings(world, final, answers)
            if talk:
                findings.append(_said("calls repeated", "as in the episode", unlike or "alike"))
            return findings, world.executor.verifier_engine.llm_client.asked
        finally:
            self.close(world)

    def _findings(self, world: World, final: str, answers: list[str] | None) -> list[Json]:
        self._seed(world)
        if world.unknown:  # upstream repeats the task, and counts it as 0 in the end
            name = "every call names a tool"
            return [_finding(name, False, "a tool of the gyms", f"no tool {world.unknown!r}")]
        for name in world.executor.mcp_clients:
            self._sql(world, name, "SELECT 1")  # the engine would count a lost server as a failure
        engine = world.executor.verifier_engine
        engine.llm_client = Judge(answers)
        given = {"final_response": final, "tool_results": world.calls}
        try:
            results = self._run(world.executor._run_verifiers(given))
        except Exception as exc:  # upstream's run is an error, which counts as 0
            return [_finding("the verifiers run", False, "they run", f"{exc}")]
        counted, notes = _counted(world.config)
        if not results:
            return [
                *notes,
                _finding("a verifier runs", False, "one", "none: upstream divides by 0"),
            ]
        found = []
        for name, one in results.items():
            asks = answers is None and _asks(counted[name])
            shown = {key: one[key] for key in one if key not in ("passed", "query", "llm_response")}
            what = str(counted[name].get("description") or one.get("query") or one.get("expected"))
            found.append(_finding(name, bool(one["passed"]), what, json.dumps(shown), asks))
        audit = self._audit(world, list(counted.values()))
        return [*found, *notes, _said(AUDIT, "none", audit)]

    def _connected(self, config: dict[str, Any]) -> Any:
        """Upstream's executor, connected to the task's servers, with its tools. Upstream makes all
        runs of a task with one; so it may be one that another world of the task left, if its
        sessions are still known."""
        for at in reversed([at for at, (known, _) in enumerate(self.idle) if known == config]):
            _, executor = self.idle.pop(at)
            if all(map(self._is_known, executor.mcp_clients.values())):
                return executor
        executor = self.upstream.BenchmarkExecutor(
            self.make_config(**config), self.no_model, orchestrator_class=object
        )
        try:
            self._run(executor.initialize())
        except Exception as exc:
            urls = ", ".join(
                f"{one['mcp_server_name']} at {one['mcp_server_url']}"
                for one in config["gym_servers_config"]
            )
            raise ConnectionError(f"{exc} ({urls}): start its container") from exc
        return executor

    def _leave(self, config: dict[str, Any], executor: Any) -> None:
        """Keep an executor for the next world of the task."""
        self.idle.append((config, executor))
        del self.idle[:-_REMEMBERED]

    def _is_known(self, client: Any) -> bool:
        return not client.mcp_session_id or bool(self._run(client.list_tools()))

    def _seed(self, world: World) -> None:
        """Make the databases of a world that has none yet."""
        if world.executor is not None:
            return
        seeds = {
            one["mcp_server_name"]: self._seed_file(one)
            for one in world.config["gym_servers_config"]
        }
        world.executor = self._connected(world.config)
        try:
            for name, path in seeds.items():
                made = self.upstream.create_database_from_file(_url(world.config, name), path)
                world.executor.mcp_clients[name].database_id = made
        except Exception as exc:
            self.close(world)
            advice = ": start its container" if isinstance(exc, self.httpx.TransportError) else ""
            what = f"{name} could not make a database of {path}: {exc}{advice}"
            raise ConnectionError(what) from exc

    def _seed_file(self, server: dict[str, Any]) -> str:
        given = server.get(_SEED) or ""
        for folder in self.folders:
            if given and os.path.isfile(path := os.path.join(folder, given)):
                return path
        raise FileNotFoundError(
            f"there is no {_SEED} {given!r} in {' or '.join(self.folders)}: unzip gym_dbs.zip there"
        )

    def _run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    def _sql(self, world: World, name: str, query: str) -> list[dict[str, Any]] | None:
        """The rows of a query; None: the gym refuses it, or answers in another form."""
        client = world.executor.mcp_clients[name]
        context = {
            key if key.lower().startswith("x-") else f"x-{key.lower().replace('_', '-')}": str(one)
            for key, one in client.context.items()
        }
        headers = {"x-database-id": client.database_id, **client._get_auth_headers(), **context}
        body = {"query": query, "database_id": client.database_id}
        url = f"{client.base_url}/api/sql-runner"
        try:
            answer = self.http.post(url, json=body, headers=headers)
            found = answer.json() if answer.status_code == 200 else None
        except self.httpx.TransportError as exc:
            raise ConnectionError(f"{name} does not answer at {url}: {exc}") from exc
        except ValueError:
            found = None
        rows = found.get("data", found.get("rows")) if isinstance(found, dict) else None
        is_known = isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
        return rows if is_known else None

    def _rows(self, world: World) -> Rows:
        """All rows of all servers that show their tables."""
        found: Rows = {}
        for name in world.executor.mcp_clients:
            tables = self._sql(world, name, _TABLES) or []
            statements = {one["name"]: one["sql"] for one in tables if one.get("sql")}
            self.tables[name] = statements
            with _database(statements) as local:
                for table in statements:
                    keys = _keys(local, table)
                    query = f"SELECT {'' if keys else 'rowid AS rowid, '}* FROM {_quoted(table)}"
                    for row in self._sql(world, name, query) or []:
                        values = [row.get(key) for key in keys or ["rowid"]]
                        key = str(values[0]) if len(values) == 1 else json.dumps(values)
                        found[name, table, key] = row
        return found

    def _audit(self, world: World, verifiers: list[dict[str, Any]]) -> str:
        """The rows that changed and that no verifier asks about: where a row is put back as it was,
        each of the verifiers' queries finds what it found."""
        start = self.starts.get(_key(world.config))
        after = self._rows(world)
        if start is None or not after:
            return "unknown: the gym does not show its rows"
        both = sorted(start.keys() | after.keys())
        changed = [key for key in both if start.get(key) != after.get(key)]
        unasked = []
        servers = list(world.executor.mcp_clients)
        for name in servers:
            queries = [
                query
                for one in verifiers
                if (one.get("gym_name") or servers[0]) == name
                and (query := _query(one)) is not None
            ]
            with _database(self.tables[name]) as local:
                for (server, table, _), row in after.items():
                    if server == name:
                        _put(local, table, row)
                found = [_answer(local, query) for query in queries]
                unasked += [
                    (key, start.get(key), after.get(key))
                    for key in changed[:_MOST_ROWS]
                    if key[0] == name
                    and not _moves(local, key, start.get(key), after.get(key), queries, found)
                ]
        return _listed(unasked, len(changed), is_one=len(servers) == 1)


class Judge:
    """Stands where upstream has the model: it takes answers that were given, and keeps what was
    asked."""

    def __init__(self, answers: list[str] | None) -> None:
        self.answers = list(answers or ())
        self.asked: list[list[dict[str, str]]] = []
        self.llm = self

    async def ainvoke(self, messages: Any) -> Any:
        """The next answer. An empty one stands for none: the engine counts it as failed."""
        roles = {"system": "system", "human": "user"}
        self.asked.append([{"role": roles[one.type], "content": one.content} for one in messages])
        return types.SimpleNamespace(content=self.answers.pop(0) if self.answers else "")


def _key(config: dict[str, Any]) -> str:
    """What a start depends on."""
    return json.dumps(config["gym_servers_config"], sort_keys=True)


def _url(config: dict[str, Any], name: str) -> str:
    servers = config["gym_servers_config"]
    return str(next(one["mcp_server_url"] for one in servers if one["mcp_server_name"] == name))


def _asks(verifier: dict[str, Any]) -> bool:
    return bool(verifier["verifier_type"] == "response_check")


def _query(verifier: dict[str, Any]) -> str | None:
    config: dict[str, str] = verifier["validation_config"]
    return config.get("sql_query") if _asks(verifier) else config.get("query")


def _counted(config: dict[str, Any]) -> tuple[dict[str, dict[str, Any]], list[Json]]:
    """The verifiers that count, by name, as upstream has them; notes on those that do not."""
    servers = {one["mcp_server_name"] for one in config["gym_servers_config"]}
    counted: dict[str, dict[str, Any]] = {}
    names: Counter[str] = Counter()
    skipped = []
    for number, one in enumerate(config["verifiers"], 1):
        name = one.get("name") or f"verifier_{number}"
        if one.get("gym_name") and one["gym_name"] not in servers:
            skipped.append(f"{name} (of {one['gym_name']})")
            continue
        counted[name] = one
        names[name] += 1
    notes = []
    if equal := [f"{name!r}: {count}" for name, count in names.items() if count > 1]:
        what = "verifiers of equal names, of which the last alone counts"
        notes.append(_said(what, "none", ", ".join(equal)))
    if skipped:
        notes.append(_said("verifiers of no server, which are skipped", "none", ", ".join(skipped)))
    return counted, notes


class _database:
    """Empty tables in memory, inside of the block."""

    def __init__(self, statements: dict[str, str]) -> None:
        self._local = sqlite3.connect(":memory:", isolation_level=None)
        self._local.row_factory = sqlite3.Row
        for statement in statements.values():
            self._local.execute(statement)

    def __enter__(self) -> sqlite3.Connection:
        return self._local

    def __exit__(self, *why: object) -> None:
        self._local.close()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _keys(local: sqlite3.Connection, table: str) -> list[str]:
    """The columns of the primary key."""
    columns = local.execute(f"PRAGMA table_info({_quoted(table)})").fetchall()
    return [one["name"] for one in sorted(columns, key=lambda one: one["pk"]) if one["pk"]]


def _put(local: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    columns, marks = ", ".join(map(_quoted, row)), ", ".join("?" * len(row))
    statement = f"INSERT INTO {_quoted(table)} ({columns}) VALUES ({marks})"  # nosec B608
    local.execute(statement, [_plain(value) for value in row.values()])


def _plain(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict | list) else value


def _take(local: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    keys = _keys(local, table) or ["rowid"]
    where = " AND ".join(f"{_quoted(key)} = ?" for key in keys)
    statement = f"DELETE FROM {_quoted(table)} WHERE {where}"  # nosec B608
    local.execute(statement, [row[key] for key in keys])


def _answer(local: sqlite3.Connection, query: str) -> Any:
    try:
        return [dict(row) for row in local.execute(query)]
    except sqlite3.Error as exc:
        return str(exc)


def _moves(
    local: sqlite3.Connection,
    key: tuple[str, str, str],
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
    queries: list[str],
    found: list[Any],
) -> bool:
    """Whether a query finds something else where one row is as it was."""
    local.execute("SAVEPOINT row")
    try:
        if after is not None:
            _take(local, key[1], after)
        if before is not None:
            _put(local, key[1], before)
        return any(
            _answer(local, query) != known for query, known in zip(queries, found, strict=True)
        )
    finally:
        local.execute("ROLLBACK TO row")
        local.execute("RELEASE row")


def _listed(unasked: list[Any], changed: int, *, is_one: bool) -> str:
    """Example: "2 of 3 changed rows: cases 12 (created), users 5 (changed: name)" """
    if not unasked and changed <= _MOST_ROWS:
        return f"none of {changed} changed rows"
    shown = []
    for (server, table, key), before, after in unasked[:_SHOWN]:
        if before is None or after is None:
            how = "created" if before is None else "deleted"
        else:
            how = "changed: " + ", ".join(name for name in after if before.get(name) != after[name])
        shown.append(f"{table if is_one else f'{server}.{table}'} {key} ({how})")
    more = f", and {len(unasked) - _SHOWN} more" if len(unasked) > _SHOWN else ""
    seen = f"; {_MOST_ROWS} were looked at" if changed > _MOST_ROWS else ""
    return f"{len(unasked)} of {changed} changed rows: {', '.join(shown)}{more}{seen}"


def _finding(name: str, passed: bool, expected: str, found: str, is_open: bool = False) -> Json:
    share = None if is_open else float(passed)
    met, texts = passed and not is_open, (expected[:_TEXT], found[:_TEXT])
    return finding(name, met, *texts, is_open=is_open, share=share)


def _said(name: str, expected: str, found: str) -> Json:
    """What is said beside the score, for which it does not count."""
    return finding(name, True, expected, found[: 2 * _TEXT], kind="guard")


adapter = Gyms
