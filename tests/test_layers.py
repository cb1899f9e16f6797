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
}
COMPOSITION_ROOT = {
    "harness.cli",
    "harness.__main__",
}  # imports everything; nothing imports it

# Folders of a package, from the ground up: a folder imports only what is before it in its row.
# "." is the package's root. A folder has one subject, and at most 16 modules.
FOLDERS = {
    "scenarios": (
        *(
            "core",
            ".",
            "suites/listings",
            "suites",
            "awm",
            "generate/core",
            "generate/vocabulary",
            "generate/plan",
        ),
        *("generate/structure", "generate/content", "generate/tasks", "generate/modules"),
        *("generate/situations/sales", "generate/situations/service"),
        *("generate/situations/operations", "generate/situations/crossing"),
        "generate/situations/talks",
        *("generate", "microworlds", "scaffold"),
        *("synth/core", "synth/storage", "synth/stages", "synth", "synth/awm_export"),
    ),
    "envpool": (
        *("core", "store", "inprocess", "offloaded", "objects/adapters", "objects"),
        *("hosting/dbapi", "hosting/determinism", "hosting/direct"),
        *("hosting", "kernel", "workers/messages", "workers", "mcp", "served", "server", "openenv"),
        *("wires", "client", "."),
    ),
    "harness": (
        *("core", "dialects", "history", "log", "tokenization", "chat", "bus", "admission"),
        *("settings", "following", "policies", "vllm/child", "vllm", "play", "continuation"),
        *(
            "chaos",
            "users",
            "rollout",
            "fleet",
            "cluster",
            "simulation",
            "replay",
            "outcomes",
            "reports",
            "profile",
        ),
        *(
            "otlp",
            "serving",
            "doctor",
            "exports",
            "task_exports",
            "imports",
            "commands",
        ),
        *("viewer/index", "viewer/reading", "viewer/worlds", "viewer/acting", "viewer/server"),
        *("viewer", ".", "bridges"),
    ),
    "judge": (
        *(
            "core",
            "statistics",
            "code",
            "suites",
            "llm",
            "playback",
            "verdicts",
            "gate/core",
            "gate/checks",
            "gate",
        ),
        *("defects", "testkit", "failures", "promotion", "experiments"),
        *("worlds", "reliability", "simulation", "commands"),
    ),
    "learner": (
        *("core", "config", "advantages", "losses", "packing", "backends", "model", "trainer"),
        *("data", "inference", "selftest", "loop", "demo", "commands", "bridges"),
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
        "harness.chat.transport_aiohttp",
        "harness.otlp.sender",
        "harness.play.http_api",
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
        "envpool.store.database",
        "envpool.store.diff",
        "envpool.store.guarded_vfs",
        "envpool.store.legacy_arithmetic",
        "envpool.store.overlay",
        "envpool.store.template",
        "envpool.store.tracking",
        "harness.history.retrieval",
        "harness.settings.run",
        "harness.simulation.crash_disk",
        "harness.simulation.log_database",
    },
    "click": {
        "harness.cli",
        "harness.commands.import_logs",
        "harness.commands.inspect_runs",
        "harness.commands.interruption",
        "harness.commands.options",
        "harness.commands.completion",
        "harness.commands.doctor",
        "harness.commands.flags",
        "harness.commands.new",
        "harness.commands.play",
        "harness.commands.profile",
        "harness.commands.run",
        "harness.commands.spans",
        "harness.commands.task_exports",
        "harness.commands.worlds",
        "harness.viewer.command",
        "judge.commands.compare",
        "judge.commands.experiment",
        "judge.commands.failures",
        "judge.commands.gate",
        "judge.commands.generate",
        "judge.commands.judge",
        "judge.commands.options",
        "judge.commands.promote",
        "judge.commands.reliability",
        "judge.commands.report",
        "judge.commands.simulate",
        "judge.commands.suites",
        "judge.commands.synthesize",
        "judge.gate.worker",
        "learner.commands.serve_policy",
        "learner.commands.train",
        "learner.demo.__main__",
    },
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
        "envpool.mcp.process",
    },
    "google": {"harness.otlp.encoding"},
    "httptools": {"harness.chat.http1"},
    "inspect_ai": {
        "harness.bridges.inspect",
        "harness.bridges.inspect_agents",
        "harness.bridges.inspect_tools",
    },
    "jinja2": {
        "harness.tokenization.chat_template",
        "judge.worlds.html",
    },
    "jsonschema": {"envpool.hosting.arguments"},
    "landlock": {"envpool.workers.confine"},
    "matplotlib": {
        "harness.reports.chart_style",
        "judge.worlds.charts",
        "learner.demo.figures",
    },
    "mcp": {
        "envpool.mcp.client",
        "envpool.mcp.process",
    },
    "openai": {"harness.chat.transport_openai"},
    "opentelemetry": {"harness.otlp.encoding"},
    "paho": {"harness.bus.mqtt_client"},
    "psutil": {
        "envpool.mcp.process",
        "harness.rollout.meters",
    },
    "pyarrow": {"harness.exports.parquet"},
    "pydantic": {
        "envpool.hosting.determinism.state_discovery",
        "envpool.hosting.determinism.state_slots",
        "envpool.hosting.fastapi_compat",
    },
    "pyseccomp": {"envpool.workers.confine"},
    "ray": {
        "harness.cluster.actor",
        "harness.cluster.connection",
        "harness.cluster.engine",
        "harness.cluster.node",
        "harness.cluster.ray_worker",
    },
    "sqlalchemy": {
        "envpool.hosting.dbapi.hooks",
        "envpool.hosting.determinism.state_discovery",
    },
    "starlette": {
        "envpool.hosting.direct.app",
        "envpool.hosting.direct.handlers",
        "envpool.hosting.routes",
        "harness.viewer.server.acting_routes",
        "harness.viewer.server.answers",
        "harness.viewer.server.app",
        "harness.viewer.server.events",
        "harness.viewer.server.judge_routes",
        "harness.viewer.server.page",
        "harness.viewer.server.run_routes",
        "harness.viewer.server.world_routes",
    },
    "time_machine": {"envpool.hosting.determinism.clock"},
    "tomli_w": {
        "harness.task_exports.harbor",
        "harness.settings.judge",
        "harness.settings.run",
        "judge.commands.experiment",
        "learner.demo.rehearse",
        "learner.loop.run_folder",
        "scenarios.awm.package",
        "scenarios.synth.core.package_files",
        "scenarios.synth.storage.output_folder",
    },
    "tokenizers": {
        "harness.tokenization.chat_tokenizer",
        "harness.tokenization.piece_cache",
        "harness.tokenization.special_tokens",
        "learner.demo.model",
        "learner.demo.tokenizer",
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
}
# Outside library: the package that may import it, in whichever modules.
WITHIN = {
    "numpy": "learner",
    "safetensors": "learner",
    "torch": "learner",
    "transformers": "learner",
}
# Imports that are not at the top: optional libraries, imported when they are needed.
# Programs that an interpreter of the user's runs, with packages that are not installed here.
ELSEWHERE = (
    "envpool.objects.adapters.",
    "envpool.served.universe_program",
    "scenarios.suites.listings.",
)

LATE = {
    ("envpool.hosting.app_loading", "uvicorn"),
    ("envpool.hosting.asgi", "envpool.hosting.direct.app"),
    ("envpool.hosting.dbapi.connections", "sqlite3.dump"),
    ("envpool.hosting.determinism.clock", "time_machine"),
    ("envpool.workers.confine", "landlock"),
    ("envpool.workers.confine", "pyseccomp"),
    ("harness.chat.client", "harness.chat.transport_aiohttp"),
    ("harness.chat.client", "harness.chat.transport_openai"),
    ("harness.cli", "learner.demo.schema"),
    ("harness.cli", "learner.data.trained_content"),
    ("harness.cli", "learner.inference.local_policy"),
    ("harness.commands.inspect_runs", "harness.bus.mqtt_bus"),
    ("harness.commands.inspect_runs", "harness.bus.mqtt_runs"),
    ("harness.following.judge_elsewhere", "harness.bus.mqtt_bus"),
    ("harness.commands.play", "harness.play.http_api"),
    ("harness.cluster.actor", "harness.cluster.node"),
    ("harness.cluster.launch", "harness.cluster.engine"),
    ("harness.commands.run", "harness.cluster.launch"),
    ("harness.commands.run", "harness.fleet.launch"),
    ("harness.commands.spans", "harness.bus.mqtt_bus"),
    ("harness.commands.spans", "harness.bus.mqtt_runs"),
    ("harness.commands.spans", "harness.otlp.encoding"),
    ("harness.commands.spans", "harness.otlp.export"),
    ("harness.commands.spans", "harness.otlp.follower"),
    ("harness.commands.spans", "harness.otlp.sender"),
    ("harness.cli", "judge.commands.viewing"),
    ("harness.commands.worlds", "envpool.server.serve"),
    ("harness.exports.lines", "harness.exports.parquet"),
    ("harness.viewer.acting.copies", "harness.bus.mqtt_runs"),
    ("harness.viewer.acting.copies", "harness.following.run_copy"),
    ("harness.viewer.command", "harness.viewer.server.serve"),
    ("harness.viewer.reading.token_texts", "harness.tokenization.chat_tokenizer"),
    ("harness.rollout.launch", "envpool.client.pool"),
    ("harness.following.published", "harness.bus.mqtt_link"),
    ("judge.commands.follow", "harness.bus.mqtt_runs"),
    ("judge.commands.follow", "harness.following.run_copy"),
    ("learner.loop.run", "harness.bus.mqtt_runs"),
    ("learner.loop.run", "harness.following.run_copy"),
    ("harness.rollout.launch", "envpool.mcp.client"),
    ("harness.rollout.launch", "envpool.mcp.pool"),
    ("harness.rollout.launch", "envpool.served.needs"),
    ("harness.rollout.launch", "envpool.served.pool"),
    ("harness.rollout.launch", "envpool.openenv.pool"),
    ("harness.rollout.policies", "harness.rollout.token_policies"),
    ("judge.commands.compare", "judge.statistics.comparison"),
    ("judge.commands.compare", "judge.statistics.outcomes"),
    ("judge.commands.compare", "judge.statistics.planning"),
    ("judge.commands.experiment", "judge.experiments.results"),
    ("judge.commands.failures", "judge.failures.reading"),
    ("judge.commands.failures", "judge.failures.render"),
    ("judge.commands.failures", "judge.failures.report"),
    ("harness.cli", "judge.statistics.run_statistics"),
    ("harness.cli", "judge.promotion.gate_file"),
    ("judge.commands.judge", "judge.statistics.run_statistics"),
    ("judge.commands.promote", "judge.promotion.decision"),
    ("judge.commands.promote", "judge.promotion.facts"),
    ("judge.commands.promote", "judge.promotion.gate_file"),
    ("judge.commands.promote", "judge.promotion.looks"),
    ("judge.commands.promote", "judge.promotion.output"),
    ("judge.commands.promote", "judge.promotion.record"),
    ("judge.commands.report", "judge.worlds.charts"),
    ("judge.commands.simulate", "judge.simulation.campaign"),
    ("judge.commands.simulate", "judge.simulation.simulated_run"),
    ("judge.commands.report", "judge.worlds.html"),
    ("learner.bridges.areal", "areal.api"),
    ("learner.bridges.areal", "torch"),
    ("learner.bridges.rllm", "rllm.eval.types"),
    ("learner.bridges.rllm", "rllm.types"),
    ("learner.bridges.slime", "slime.utils.http_utils"),
    ("learner.bridges.tinker", "tinker"),
    ("learner.bridges.tinker", "tinker_cookbook.rl.types"),
    ("learner.bridges.verl", "verl.experimental.agent_loop.agent_loop"),
    ("learner.commands.serve_policy", "learner.inference.serving"),
    ("learner.inference.serving", "learner.inference.local_policy"),
    ("learner.loop.metrics_sinks", "torch.utils.tensorboard"),
    ("learner.loop.metrics_sinks", "trackio"),
    ("learner.loop.metrics_sinks", "wandb"),
    ("scenarios.generate.vocabulary.people", "faker"),
}

Import = tuple[str, str, bool]  # who, what, whether it is at the top


_MAY_IMPORT = (ast.Import, ast.ImportFrom, ast.Call)


def _names(node: ast.AST) -> list[str]:
    """The modules that a node imports, `import_module("a.b")` included."""
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=str(module), level=0, names=names):
            inner = [f"{module}.{alias.name}" for alias in names]
            return [name for name in inner if name in MODULES] or [module]
        case ast.ImportFrom(level=level):
            return ["." * level]
        case ast.Call(
            func=ast.Attribute(attr="import_module") | ast.Name(id="import_module"),
            args=[ast.Constant(value=str(name))],
        ):
            return [name]
    return []


def _imports(text: str, module: str) -> Iterator[Import]:
    tree = ast.parse(text)
    top = set(map(id, tree.body))
    for node in ast.walk(tree):
        if not isinstance(node, _MAY_IMPORT):
            continue
        for name in _names(node):
            yield module, name, id(node) in top


def _modules() -> dict[str, Path]:
    """Every module of the project by its dotted name; the code inside scenario packages is not
    ours."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for package in MAP
        for path in (ROOT / package).rglob("*.py")
        if path.name == "__init__.py"
        or not path.relative_to(ROOT).as_posix().startswith(IN_PACKAGES)
    }


MODULES = _modules()


def _folder(module: str) -> str:
    """The folder of a module; a world's folders count as the one that holds them."""
    folder = MODULES[module].relative_to(ROOT).parent.as_posix()
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


def test_imports_point_down(imports: list[Import]) -> None:
    """A package imports only what the map has below it; the composition root imports everything."""
    wrong = [
        f"{who} imports {what}"
        for who, what, _ in imports
        if who not in COMPOSITION_ROOT
        and (package := what.partition(".")[0]) in MAP
        and package != (own := who.partition(".")[0])
        and package not in MAP[own]
    ]
    assert wrong == []


def test_nothing_imports_the_composition_root(imports: list[Import]) -> None:
    """Only the composition root imports itself."""
    assert [
        who for who, what, _ in imports if what in COMPOSITION_ROOT and who not in COMPOSITION_ROOT
    ] == []


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
        path.parent.relative_to(ROOT).as_posix()
        for path in MODULES.values()
        if path.name != "__init__.py"
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
    """Imports inside of functions are the ones listed; none is relative."""
    late = {(who, what) for who, what, at_top in imports if not at_top}
    assert {(who, what) for who, what in late if not who.startswith(ELSEWHERE)} == LATE
    assert [who for who, what, _ in imports if what.startswith(".")] == []


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_is_known_to_few(library: str, imports: list[Import]) -> None:
    """An outside library is imported exactly where the table allows it."""
    known = {who for who, what, _ in imports if what.partition(".")[0] == library}
    assert known == LIBRARIES[library]


@pytest.mark.parametrize("library", WITHIN)
def test_a_library_is_known_to_one_package(library: str, imports: list[Import]) -> None:
    """The learner's libraries are imported nowhere else, so that the rest runs without them."""
    known = {who.partition(".")[0] for who, what, _ in imports if what.partition(".")[0] == library}
    assert known <= {WITHIN[library]}


def test_every_package_file_is_empty() -> None:
    """Names are imported from the module that defines them: `__init__.py` holds nothing."""
    found = [path for package in MAP for path in (ROOT / package).rglob("__init__.py")]
    assert [path.relative_to(ROOT) for path in found if path.read_text().strip()] == []


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
    )
    assert sorted(_imports(text, "m")) == [
        ("m", ".", True),
        ("m", "harness.bus", True),
        ("m", "judge.code", True),
        ("m", "openai", False),
        ("m", "torch", False),
    ]
