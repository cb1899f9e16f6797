"""The map of the packages: which may import which, and which uses which outside library.

A new arrow, or one more module that imports a library, is a change to this map, made on purpose.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import msgspec
import pytest

from tests.support.made_once import made_once

ROOT = Path(__file__).parent.parent

# Package: what it may import, itself aside.
MAP = {
    "scenarios": set(),
    "envpool": {"scenarios"},
    "harness": {"scenarios", "envpool"},
    "judge": {"scenarios", "envpool", "harness"},
    "learner": {"scenarios", "envpool", "harness"},
    # The roof: it imports everything, and nothing imports it. Its files lie in src/rehearsal_room.
    "rehearsal_room": {"scenarios", "envpool", "harness", "judge", "learner"},
}
ROOF = "rehearsal_room"

# Folders of a package, from the ground up: a folder imports only what is before it in its row.
# "." is the package's root. A folder has one subject, and at most 16 modules.
FOLDERS = {
    "scenarios": (
        *(
            "core",
            ".",
            "suites/listings",
            "suites/bfcl",
            "suites",
            "awm",
            "generate/core",
            "generate/vocabulary",
            "generate/plan",
        ),
        *("generate/structure", "generate/content", "generate/tasks", "generate/modules"),
        *("generate/situations/helpers", "generate/situations/goods", "generate/situations/money"),
        *("generate/situations/customers", "generate/situations/office"),
        *("generate/situations/schedule", "generate/situations/equipment"),
        "generate/situations/dialogues",
        *("generate", "microworlds", "scaffold"),
        *("synth/core", "synth/storage", "synth/stages", "synth", "synth/awm_export"),
    ),
    "envpool": (
        *("core", "store", "inprocess", "remote_execution", "objects/adapters", "objects"),
        *("mcp_state", "seeded/python", "seeded"),
        *("hosting/dbapi", "hosting/determinism", "hosting/direct"),
        *("hosting", "kernel", "workers/messages", "workers", "mcp", "mcp_worlds", "served"),
        *("server", "openenv"),
        *("protocols", "client", "sources", "."),
    ),
    "harness": (
        *("core", "dialects", "history", "log", "tokenization", "model_servers"),
        *("chat", "model_api", "bus", "admission"),
        *("settings", "following", "policies", "vllm/child", "vllm", "continuation"),
        *("users", "outcomes", "rollout", "agents", "chaos", "setup", "fleet", "cluster"),
        "logged_runs",
        *("replay", "reports", "profile", "serving", "."),
    ),
    "judge": (
        *("core", "statistics", "code/stated", "code", "suites", "failures", "llm", "playback"),
        "verdicts",
        *("gate/core", "gate/checks", "gate", "testkit", "promotion", "experiments"),
        *("reliability", "blame"),
    ),
    "learner": (
        *("core", "config", "advantages", "losses", "packing", "backends", "model", "trainer"),
        *("prime_rl", "data", "inference", "selftest", "loop", "credit"),
    ),
    "rehearsal_room": (
        *(
            "demo",
            "doctor",
            "play",
            "authoring",
            "authoring/server_worlds",
            "authoring/recordings",
            "authoring/openapi",
            "bridges",
            "bridges/trainers",
            "testing",
        ),
        *("interop/exports", "interop/imports", "interop/task_exports", "interop/otlp"),
        *("viewer/index", "viewer/reading", "viewer/sent", "viewer/listing", "viewer/tasks"),
        "viewer/worlds",
        *("viewer/acting", "viewer", "viewer/server"),
        *("cli/core", "cli/worlds", "cli/play", "cli/look", "cli/train", "cli/trust"),
        *("cli/tools", "cli", "."),
    ),
}
MAX_MODULES = 16
# Code inside of scenario packages, which is not ours to lay out.
IN_PACKAGES = ("scenarios/bundled/", "scenarios/scaffold/world/")
# Worlds, each a folder of its own: their number has no bound.
WORLDS = {"scenarios/bundled", "scenarios/generate/modules"}
# The one pair of folders that import each other: the catalogue finds AWM records beside packages.
BOTH_WAYS = {("scenarios", "scenarios/awm")}

# Outside library: the modules that import it. (uvloop is named to anyio as an option, by process.)
LIBRARIES: dict[str, set[str]] = {
    "aiohttp": {
        "envpool.client.http",
        "envpool.openenv.client",
        "envpool.openenv.pool",
        "harness.agents.endpoints",
        "harness.chat.transport_aiohttp",
        "rehearsal_room.authoring.recordings.http_proxy",
        "rehearsal_room.play.http_api",
    },
    "aiomqtt": {"harness.bus.mqtt_client"},
    "aiosqlite": {
        "harness.log.writer",
        "judge.llm.verdict_cache",
    },
    "apsw": {
        "envpool.hosting.dbapi.cursors",
        "envpool.hosting.dbapi.database",
        "envpool.hosting.dbapi.errors",
        "envpool.hosting.dbapi.slots",
        "envpool.inprocess.dedicated_connection",
        "envpool.inprocess.world",
        "envpool.mcp_state.rows",
        "envpool.mcp_state.sqlite_reader",
        "envpool.mcp_worlds.mirror",
        "envpool.mcp_worlds.state",
        "envpool.store.database",
        "envpool.store.diff",
        "envpool.store.guarded_vfs",
        "envpool.store.legacy_arithmetic",
        "envpool.store.overlay",
        "envpool.store.states",
        "envpool.store.template",
        "envpool.store.tracking",
        "harness.history.retrieval",
        "harness.settings.run",
        "judge.gate.checks.row_rules",
    },
    "click": {"judge.gate.worker", "rehearsal_room.demo.__main__"},  # and the command line
    "faker": {"scenarios.generate.vocabulary.people"},
    "fastapi": {
        "envpool.hosting.app_loading",
        "envpool.hosting.determinism.state_discovery",
        "envpool.hosting.direct.app",
        "envpool.hosting.direct.handlers",
        "envpool.hosting.direct.parameters",
        "envpool.hosting.fastapi_compat",
        "envpool.hosting.routes",
        "envpool.hosting.tool_listing",
    },
    "fastmcp": {
        "envpool.mcp.client",
        "envpool.mcp.http",
        "envpool.mcp.process",
        "envpool.mcp.resources",
        "rehearsal_room.authoring.openapi.server",
    },
    "google": {"harness.agents.otlp_protobuf", "rehearsal_room.interop.otlp.encoding"},
    "httptools": {"harness.chat.http1"},
    "httpx2": {"envpool.mcp.http", "rehearsal_room.authoring.openapi.server"},
    "inspect_ai": {
        "rehearsal_room.bridges.inspect",
        "rehearsal_room.bridges.inspect_agents",
        "rehearsal_room.bridges.inspect_tools",
        "rehearsal_room.interop.exports.inspect_log",
        "rehearsal_room.interop.exports.inspect_sample",
    },
    "jinja2": {
        "harness.tokenization.chat_template",
        "rehearsal_room.authoring.html",
    },
    "json_repair": {"harness.dialects.awm_release"},
    "jsonschema": {"envpool.hosting.arguments"},
    "landlock": {"envpool.workers.confine"},
    "matplotlib": {
        "harness.reports.chart_style",
        "rehearsal_room.authoring.charts",
        "learner.credit.figure",
        "rehearsal_room.demo.figures",
    },
    "mcp": {
        "envpool.mcp.client",
        "envpool.mcp.http",
        "envpool.mcp.process",
        "envpool.mcp.tolerant",
    },
    "openai": {"harness.chat.transport_openai"},
    "opentelemetry": {
        "harness.agents.otlp_protobuf",
        "rehearsal_room.interop.otlp.encoding",
        "rehearsal_room.interop.otlp.sender",
    },
    "paho": {"harness.bus.mqtt_client"},
    "psycopg": {
        "envpool.mcp_state.postgres_catalog",
        "envpool.mcp_state.postgres_reader",
        "envpool.mcp_worlds.postgres",
        "envpool.seeded.postgres",
    },
    "psutil": {
        "envpool.mcp.process",
        "envpool.objects.process",
        "harness.rollout.meters",
    },
    "peft": {"learner.model.adapters"},
    "pyarrow": {
        "learner.data.conversations",
        "rehearsal_room.interop.exports.parquet",
        "rehearsal_room.interop.exports.samples",
    },
    "pydantic": {
        "envpool.hosting.determinism.state_discovery",
        "envpool.hosting.determinism.state_slots",
        "envpool.hosting.fastapi_compat",
        "envpool.mcp.tolerant",
    },
    "pyseccomp": {"envpool.workers.confine"},
    "pytest": {
        "rehearsal_room.testing.claims",
        "rehearsal_room.testing.plays",
        "rehearsal_room.testing.plugin",
        "rehearsal_room.testing.settling",
    },
    "ray": {
        "harness.cluster.actor",
        "harness.cluster.connection",
        "harness.cluster.engine",
        "harness.cluster.node",
        "harness.cluster.ray_worker",
    },
    "requests": {"rehearsal_room.interop.otlp.sender"},
    "sqlalchemy": {
        "envpool.hosting.dbapi.hooks",
        "envpool.hosting.determinism.state_discovery",
    },
    "starlette": {
        "envpool.hosting.direct.app",
        "envpool.hosting.direct.handlers",
        "envpool.hosting.routes",
        "envpool.server.answers",
        "envpool.server.app",
        "envpool.server.guard",
        "envpool.protocols.gym",
        "envpool.protocols.http",
        "envpool.protocols.openenv",
        "envpool.protocols.ors",
        "envpool.protocols.ors_calls",
        "envpool.protocols.served",
        "envpool.protocols.task_routes",
        "harness.agents.gateway",
        "harness.serving.http_server",
        "rehearsal_room.authoring.recordings.http_proxy",
        "rehearsal_room.viewer.server.acting_routes",
        "rehearsal_room.viewer.server.answers",
        "rehearsal_room.viewer.server.app",
        "rehearsal_room.viewer.server.events",
        "rehearsal_room.viewer.server.judge_routes",
        "rehearsal_room.viewer.server.list_routes",
        "rehearsal_room.viewer.server.page",
        "rehearsal_room.viewer.server.presence_routes",
        "rehearsal_room.viewer.server.run_routes",
        "rehearsal_room.viewer.server.tries_routes",
        "rehearsal_room.viewer.server.world_routes",
    },
    "time_machine": {"envpool.hosting.determinism.clock"},
    "tomli_w": {
        "rehearsal_room.interop.task_exports.harbor",
        "harness.settings.judge",
        "harness.settings.run",
        "rehearsal_room.cli.trust.experiment",
        "rehearsal_room.demo.rehearse",
        "learner.loop.run_folder",
        "scenarios.awm.package",
        "scenarios.synth.core.package_files",
        "scenarios.synth.storage.output_folder",
    },
    "tokenizers": {
        "harness.tokenization.chat_tokenizer",
        "harness.tokenization.piece_cache",
        "harness.tokenization.reply_frames",
        "harness.tokenization.special_tokens",
        "rehearsal_room.demo.model",
        "rehearsal_room.demo.tokenizer",
    },
    "trackio": {"learner.loop.metrics_sinks"},
    "uvicorn": {
        "envpool.hosting.app_loading",
        "envpool.server.http_protocol",
        "envpool.server.http_server",
    },
    "uvloop": set(),
    "vllm": set(),
    "wandb": {"learner.loop.metrics_sinks"},
    "yaml": {
        "envpool.objects.adapters.dojo",
        "rehearsal_room.authoring.openapi.server",
        "scenarios.suites.listings.agentdojo_tasks",
        "scenarios.suites.listings.mcp_universe_prompts",
    },
}
DEMO_MODEL = "rehearsal_room.demo.model"  # makes random weights to learn from
# Outside library: the packages that may import it, in whichever modules.
WITHIN = {
    "numpy": (
        "learner.",
        "judge.statistics.",
        "rehearsal_room.interop.exports.samples",
    ),  # scipy, a library of the core, brings it
    "safetensors": ("learner.", DEMO_MODEL),
    "torch": ("learner.", DEMO_MODEL),
    "transformers": ("learner.", DEMO_MODEL),
}
TRAINERS = "rehearsal_room.bridges.trainers."  # run inside of other trainers, with their torch
COMMAND_LINE = "rehearsal_room.cli."  # its commands are imported when they run
# Imports that are not at the top: optional libraries, imported when they are needed.
# Programs that an interpreter of the user's runs, with packages that are not installed here.
ELSEWHERE = (
    "envpool.objects.adapters.",
    "envpool.seeded.python.",
    "envpool.served.universe_program",
    "scenarios.suites.listings.",
)

LATE = {
    ("envpool.mcp_worlds.pool", "envpool.mcp_worlds.postgres"),
    ("envpool.mcp_worlds.pool", "envpool.mcp_worlds.running"),
    ("envpool.sources.foreign", "envpool.mcp.client"),
    ("envpool.sources.foreign", "envpool.mcp.pool"),
    ("envpool.sources.suites", "envpool.served.needs"),
    ("envpool.sources.suites", "envpool.served.pool"),
    ("harness.agents.otlp_requests", "harness.agents.otlp_protobuf"),
    ("harness.dialects.awm_release", "json_repair"),
    ("learner.data.conversations", "pyarrow"),
    ("learner.model.adapters", "peft"),
    ("harness.launch", "harness.cluster.engine"),
    ("harness.setup.policies", "harness.setup.token_policies"),
    ("envpool.hosting.app_loading", "uvicorn"),
    ("envpool.hosting.asgi", "envpool.hosting.direct.app"),
    ("envpool.hosting.dbapi.connections", "sqlite3.dump"),
    ("envpool.hosting.determinism.clock", "time_machine"),
    ("envpool.workers.confine", "landlock"),
    ("envpool.workers.confine", "pyseccomp"),
    ("harness.chat.client", "harness.chat.transport_openai"),
    ("harness.cluster.actor", "harness.cluster.node"),
    ("rehearsal_room.interop.exports.formats", "rehearsal_room.interop.exports.inspect_log"),
    ("rehearsal_room.interop.exports.formats", "rehearsal_room.interop.exports.samples"),
    ("rehearsal_room.interop.exports.lines", "rehearsal_room.interop.exports.parquet"),
    # pytest loads the plug-in in every session, so it imports the rest when a test uses it.
    ("rehearsal_room.testing.plugin", "rehearsal_room.testing.claims"),
    ("rehearsal_room.testing.plugin", "rehearsal_room.testing.live_world"),
    ("rehearsal_room.testing.plugin", "rehearsal_room.testing.plays"),
    ("rehearsal_room.testing.plugin", "rehearsal_room.testing.settling"),
    ("rehearsal_room.viewer.reading.token_texts", "harness.tokenization.chat_tokenizer"),
    ("rehearsal_room.bridges.trainers.areal", "areal.api"),
    ("rehearsal_room.bridges.trainers.areal", "torch"),
    ("rehearsal_room.bridges.trainers.rllm", "rllm.eval.types"),
    ("rehearsal_room.bridges.trainers.rllm", "rllm.types"),
    ("rehearsal_room.bridges.trainers.slime", "slime.utils.http_utils"),
    ("rehearsal_room.bridges.trainers.tinker", "tinker"),
    ("rehearsal_room.bridges.trainers.tinker", "tinker_cookbook.rl.types"),
    ("rehearsal_room.bridges.trainers.verl", "verl.experimental.agent_loop.agent_loop"),
    ("learner.inference.serving", "learner.inference.local_policy"),
    ("learner.loop.metrics_sinks", "torch.utils.tensorboard"),
    ("learner.loop.metrics_sinks", "trackio"),
    ("learner.loop.metrics_sinks", "wandb"),
    ("scenarios.generate.vocabulary.people", "faker"),
}

Import = tuple[str, str, bool]  # who, what, whether it is at the top


_MAY_IMPORT = (ast.Import, ast.ImportFrom, ast.Call)


def _names(node: ast.AST) -> list[str]:
    """The modules that a node imports, `import_module("a.b")` and the places in the table of
    commands (rehearsal_room.cli.verbs) included."""
    match node:
        case ast.Import(names=names):
            return [_short(alias.name) for alias in names]
        case ast.ImportFrom(module=str(module), level=0, names=names):
            inner = [_short(f"{module}.{alias.name}") for alias in names]
            return [name for name in inner if name in MODULES] or [_short(module)]
        case ast.ImportFrom(level=level):
            return ["." * level]
        case ast.Call(
            func=ast.Attribute(attr="import_module") | ast.Name(id="import_module"),
            args=[ast.Constant(value=str(name))],
        ):
            return [_short(name)]
        case ast.Call(func=ast.Name(id="Verb"), args=[ast.Constant(value=str(place)), *_]) if place:
            return [f"{COMMAND_LINE}{place.partition(':')[0]}"]
    return []


def _imports(text: str, module: str) -> Iterator[Import]:
    tree = ast.parse(text)
    top = set(map(id, tree.body))
    for node in ast.walk(tree):
        if not isinstance(node, _MAY_IMPORT):
            continue
        for name in _names(node):
            yield module, name, id(node) in top


def _short(name: str) -> str:
    """A module of the five packages without the name that they share."""
    rest = name.removeprefix(f"{ROOF}.")
    return rest if rest.partition(".")[0] in MAP else name


def _modules() -> dict[str, Path]:
    """Every module of the project by its dotted name; the code inside scenario packages is not
    ours. The five packages go by their short names, the roof's modules by their whole ones."""
    roof = ROOT / "src" / ROOF
    own = [path for path in roof.iterdir() if not path.is_symlink()]
    paths = [
        *(path for package in MAP if package != ROOF for path in (ROOT / package).rglob("*.py")),
        *(path for path in own if path.suffix == ".py"),
        *(path for folder in own if folder.is_dir() for path in folder.rglob("*.py")),
    ]
    return {
        ".".join(_place(path).with_suffix("").parts).removesuffix(".__init__"): path
        for path in paths
        if path.name == "__init__.py" or not _place(path).as_posix().startswith(IN_PACKAGES)
    }


def _place(path: Path) -> Path:
    """Where a module lies, from the repository's root or, in the roof, from `src`."""
    return path.relative_to(ROOT / "src" if path.is_relative_to(ROOT / "src") else ROOT)


MODULES = _modules()


def _folder(module: str) -> str:
    """The folder of a module; a world's folders count as the one that holds them."""
    folder = _place(MODULES[module]).parent.as_posix()
    return next((top for top in WORLDS if folder.startswith(f"{top}/")), folder)


MODULE_FOLDERS = {_folder(module) for module, path in MODULES.items() if path.name != "__init__.py"}


@pytest.fixture(scope="module")
def imports(tmp_path_factory: pytest.TempPathFactory) -> list[Import]:
    """Every import of the project. It takes seconds, so one worker finds them."""

    def find(folder: Path) -> None:
        found = [
            one
            for module, path in sorted(MODULES.items())
            for one in _imports(path.read_text(encoding="utf-8"), module)
        ]
        (folder / "imports.json").write_bytes(msgspec.json.encode(found))

    folder = made_once(tmp_path_factory, "imports", find)
    return msgspec.json.decode((folder / "imports.json").read_bytes(), type=list[Import])


def _upward(imports: list[Import]) -> list[str]:
    """The imports that the map does not have."""
    return [
        f"{who} imports {what}"
        for who, what, _ in imports
        if (package := what.partition(".")[0]) in MAP
        and package != (own := who.partition(".")[0])
        and package not in MAP[own]
    ]


def test_imports_point_down(imports: list[Import]) -> None:
    """A package imports only what the map has below it."""
    assert _upward(imports) == []


@pytest.mark.parametrize(
    ("who", "line", "what"),
    [
        ("harness.log.reader", "from rehearsal_room.judge.code import proof", "judge.code.proof"),
        ("envpool.core.types", "import rehearsal_room.harness.library", "harness.library"),
        ("scenarios.api", "from rehearsal_room.envpool.core.types import ToolSpec", None),
        (
            "judge.code.proof",
            "from rehearsal_room.learner.core import errors",
            "learner.core.errors",
        ),
        ("judge.code.proof", "from rehearsal_room.viewer import server", None),
        ("learner.core.errors", "def f():\n    import rehearsal_room.cli.main", None),
        ("harness.library", "import_module('rehearsal_room.cli.main')", None),
        ("harness.library", "from rehearsal_room import judge", None),
        ("harness.library", "import rehearsal_room", None),
    ],
)
def test_an_upward_import_is_seen(who: str, line: str, what: str | None) -> None:
    """From a lower package to a higher one, or to the roof, in whichever form it is written."""
    (found,) = _upward(list(_imports(line, who)))
    assert found.startswith(f"{who} imports {what or ''}")


def test_a_downward_import_is_not_reported() -> None:
    """What the map has is allowed; the tests above do not pass by refusing everything."""
    line = (
        "from rehearsal_room.harness.log import reader\nfrom rehearsal_room.judge.code import proof"
    )
    assert _upward(list(_imports(line, "rehearsal_room.cli.main"))) == []
    assert (
        _upward(list(_imports("import rehearsal_room.scenarios.api", "envpool.core.types"))) == []
    )


def _rank(folder: str) -> tuple[str, int]:
    """A folder's package and its position there, from the ground up."""
    package, _, rest = folder.partition("/")
    return package, FOLDERS[package].index(rest or ".")


def test_folders_import_in_one_direction(imports: list[Import]) -> None:
    """Inside a package a folder imports only what FOLDERS names before it."""
    wrong = [
        f"{who} imports {what}"
        for who, what, _ in imports
        if what in MODULES and MODULES[what].name != "__init__.py"
        if (own := _folder(who)) != (other := _folder(what))
        if (own, other) not in BOTH_WAYS and (other, own) not in BOTH_WAYS
        if own not in WORLDS and other in MODULE_FOLDERS
        if _rank(own)[0] == _rank(other)[0] and _rank(own)[1] < _rank(other)[1]
    ]
    assert wrong == []


def test_folders_have_few_modules() -> None:
    """A folder holds at most MAX_MODULES modules: more is more than one subject."""
    counts = Counter(
        _place(path).parent.as_posix() for path in MODULES.values() if path.name != "__init__.py"
    )
    assert {folder: n for folder, n in counts.items() if n > MAX_MODULES} == {}


def test_every_folder_is_on_the_map() -> None:
    """FOLDERS names each folder that has modules, and no other."""
    assert {
        package if folder == "." else f"{package}/{folder}"
        for package, folders in FOLDERS.items()
        for folder in folders
    } - WORLDS == MODULE_FOLDERS - WORLDS


def test_no_circles(imports: list[Import]) -> None:
    """No module reaches itself through imports, late ones included."""
    graph: dict[str, set[str]] = {}
    for who, what, _ in imports:
        if what in MODULES:
            graph.setdefault(who, set()).add(what)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as exc:
        pytest.fail(" -> ".join(exc.args[1]))


def test_imports_stand_at_the_top(imports: list[Import]) -> None:
    """Imports inside of functions are the ones listed, those of commands, and those of the public
    API, which names what it imports on first use; none is relative, but where programs of another
    interpreter share a module beside them."""
    late = {(who, what) for who, what, at_top in imports if not at_top}
    free = (*ELSEWHERE, COMMAND_LINE)
    assert {one for one in late if not one[0].startswith(free) and one[0] != ROOF} == LATE
    relative = {(who, what) for who, what, _ in imports if what.startswith(".")}
    assert {one for one in relative if one[1] != "." or not one[0].startswith(ELSEWHERE)} == set()


def test_the_roof_names_no_module_by_a_string() -> None:
    """In the roof our own modules are imported by `import`. The table of commands is the one
    exception, beside the public API: it names modules that exist."""
    found = {
        name: _named_by_strings(path.read_text(encoding="utf-8"))
        for name, path in MODULES.items()
        if name.startswith(f"{ROOF}.") and not name.startswith(TRAINERS)
    }
    table = found.pop(f"{COMMAND_LINE}verbs")

    assert {name: strings for name, strings in found.items() if strings} == {
        f"{COMMAND_LINE}core.lazy": ["?"]  # it imports what the table names
    }
    assert set(table) <= MODULES.keys()
    assert len(table) > 20


def _named_by_strings(text: str) -> list[str]:
    """The modules that calls name, `Verb(…)` and `import_module(…)`; "?": not a literal."""
    found = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="import_module" | "__import__")
                | ast.Name(id="import_module" | "__import__" | "_import_module")
            ):
                found += _names(node) or ["?"]
            case ast.Call(func=ast.Name(id="Verb")):
                found += _names(node)
    return found


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_is_known_to_few(library: str, imports: list[Import]) -> None:
    """An outside library is imported exactly where the table allows it; click also wherever in the
    command line."""
    known = {who for who, what, _ in imports if what.partition(".")[0] == library}
    if library == "click":
        known = {who for who in known if not who.startswith(COMMAND_LINE)}
    assert known == LIBRARIES[library]


@pytest.mark.parametrize("library", WITHIN)
def test_a_library_is_known_to_one_package(library: str, imports: list[Import]) -> None:
    """The learner's libraries are imported nowhere else, so that the rest runs without them."""
    known = {who for who, what, _ in imports if what.partition(".")[0] == library}
    assert all(who.startswith((*WITHIN[library], TRAINERS)) for who in known)


def test_every_package_file_is_empty() -> None:
    """Names are imported from the module that defines them: `__init__.py` holds nothing, but for
    the refusal of another name in the five folders, and the public API."""
    found = [path for path in MODULES.values() if path.name == "__init__.py"]
    assert {_place(path).as_posix() for path in found if path.read_text().strip()} == {
        f"{package}/__init__.py" for package in MAP
    }


def test_scenario_code_knows_only_what_it_is_written_against() -> None:
    """The tools and verifiers of bundled worlds and of the template import scenarios.api, checks
    and errors, and no outside library but msgspec."""
    allowed = {"scenarios.api", "scenarios.checks", "scenarios.errors", "msgspec", "typing"}
    for path in (
        *ROOT.glob("scenarios/bundled/*/*.py"),
        *ROOT.glob("scenarios/scaffold/world/*.py"),
    ):
        found = {what for _, what, _ in _imports(path.read_text(encoding="utf-8"), path.name)}
        outside = {name for name in found - allowed if name.partition(".")[0] in {*MAP, *LIBRARIES}}
        assert outside == set(), path


def test_the_check_sees_what_it_checks() -> None:
    """An upward arrow, a late import and a relative one are seen, in whatever form."""
    text = (
        "import judge.code\nfrom harness import bus\nfrom . import x\n"
        "def f():\n    import torch\n    importlib.import_module('openai')\n"
        "table = {'x': Verb('play.run:run_command', 'Run.'), 'y': Verb('', 'A group.')}\n"
    )
    assert sorted(_imports(text, "m")) == [
        ("m", ".", True),
        ("m", "harness.bus", True),
        ("m", "judge.code", True),
        ("m", "openai", False),
        ("m", "rehearsal_room.cli.play.run", False),
        ("m", "torch", False),
    ]
