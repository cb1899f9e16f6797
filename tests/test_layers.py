"""The map of the packages: who may import whom, and who knows which outside library.

A new arrow, or a new place that knows a library, is a change to this map, made on purpose.
"""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# Package: what it may import, itself aside.
MAP = {
    "scenarios": set(),
    "envpool": {"scenarios"},
    "harness": {"scenarios", "envpool"},
    "judge": {"scenarios", "envpool", "harness"},
    "learner": {"scenarios", "envpool", "harness"},
}
ROOF = {"harness.cli", "harness.__main__"}  # imports everything, imported by nobody outside

# Outside library: the modules that know it. (uvloop is named to anyio as an option, by process.)
LIBRARIES = {
    "aiohttp": {"envpool.remote.http", "harness.policies.chat_aiohttp"},
    "aiomqtt": {"harness.mqtt_client"},
    "aiosqlite": {"harness.log_writer", "judge.cache"},
    "apsw": {
        *("envpool.arithmetic", "envpool.database", "envpool.dedicated", "envpool.guarded"),
        *("envpool.overlay", "envpool.template", "envpool.tracking", "envpool.views"),
        *("envpool.world", "envpool.hosting.cursors", "envpool.hosting.database"),
        *("envpool.hosting.faults", "envpool.hosting.slots", "harness.config"),
        "harness.history_retrieve",
    },
    "click": {
        *("harness.cli", "harness.verbs.flags", "harness.verbs.look"),
        *("harness.verbs.play", "harness.verbs.worlds", "judge.verbs.common"),
        *("judge.verbs.gate", "judge.verbs.generate", "judge.verbs.judging"),
        *("judge.verbs.reliability", "judge.verbs.report", "judge.verbs.synthesise"),
        *("learner.verbs.serve_policy", "learner.verbs.train"),
    },
    "faker": {"scenarios.generate.people"},
    "fastapi": {
        *("envpool.hosting.app", "envpool.hosting.listing", "envpool.hosting.older"),
        *("envpool.hosting.routes", "envpool.hosting.survey"),
    },
    "fastmcp": {"envpool.mcp_link", "envpool.mcp_process"},
    "jinja2": {"harness.chat_template"},
    "jsonschema": {"envpool.hosting.arguments"},
    "landlock": {"envpool.workers.confine"},
    "matplotlib": {"judge.catalogue_charts", "learner.demo.figures"},
    "mcp": {"envpool.mcp_link", "envpool.mcp_process"},
    "openai": {"harness.policies.openai_package"},
    "paho": {"harness.mqtt_client"},
    "psutil": {"envpool.mcp_process", "harness.meters"},
    "pyarrow": {"harness.parquet"},
    "pydantic": {"envpool.hosting.older", "envpool.hosting.places", "envpool.hosting.survey"},
    "pyseccomp": {"envpool.workers.confine"},
    "sqlalchemy": {"envpool.hosting.engine", "envpool.hosting.survey"},
    "starlette": {"envpool.hosting.routes"},
    "time_machine": {"envpool.hosting.clock"},
    "tomli_w": {
        *(
            "harness.config",
            "harness.judge_settings",
            "learner.demo.rehearse",
            "learner.train_folder",
        ),
        *("scenarios.awm.package", "scenarios.synth.folder", "scenarios.synth.package"),
    },
    "tokenizers": {
        *("harness.chat_tokens", "harness.plain_data", "harness.text_pieces"),
        *("learner.demo.model", "learner.demo.tokenizer"),
    },
    "trackio": {"learner.metrics_sinks"},
    "uvicorn": {"envpool.hosting.app", "envpool.remote.listening"},
    "uvloop": set(),
    "vllm": set(),
    "wandb": {"learner.metrics_sinks"},
}
# Outside library: the package that may know it, in whichever modules.
WITHIN = {
    "numpy": "learner",
    "safetensors": "learner",
    "torch": "learner",
    "transformers": "learner",
}
# Imports that do not stand at the top: optional libraries, asked for when they are needed.
LATE = {
    ("envpool.hosting.app", "uvicorn"),
    ("envpool.hosting.dbapi", "sqlite3.dump"),
    ("envpool.workers.confine", "landlock"),
    ("envpool.workers.confine", "pyseccomp"),
    ("harness.cli", "learner.local_policy"),
    ("harness.export", "harness.parquet"),
    ("harness.launch", "envpool.mcp_in"),
    ("harness.launch", "envpool.mcp_link"),
    ("harness.launch", "envpool.remote.client"),
    ("harness.players", "harness.token_players"),
    ("harness.policies.chat_client", "harness.policies.openai_package"),
    ("harness.verbs.worlds", "envpool.remote.server"),
    ("judge.verbs.report", "judge.catalogue_charts"),
    ("judge.verbs.report", "judge.catalogue_page"),
    ("learner.metrics_sinks", "torch.utils.tensorboard"),
    ("learner.metrics_sinks", "trackio"),
    ("learner.metrics_sinks", "wandb"),
    ("learner.serving", "learner.local_policy"),
    ("learner.verbs.serve_policy", "learner.serving"),
    ("scenarios.generate.people", "faker"),
}

Import = tuple[str, str, bool]  # who, what, whether it stands at the top


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
        for name in _names(node):
            yield module, name, id(node) in top


def _modules() -> dict[str, Path]:
    """Every module of ours by its dotted name; the code inside scenario packages is not ours."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for package in MAP
        for path in (ROOT / package).rglob("*.py")
        if "bundled" not in path.parts or path.name == "__init__.py"
    }


MODULES = _modules()
IMPORTS = [
    found
    for module, path in sorted(MODULES.items())
    for found in _imports(path.read_text(encoding="utf-8"), module)
]


def test_imports_point_down() -> None:
    """A package imports only what the map has below it; the roof imports everything."""
    wrong = [
        f"{who} imports {what}"
        for who, what, _ in IMPORTS
        if who not in ROOF
        and (package := what.partition(".")[0]) in MAP
        and package != (own := who.partition(".")[0])
        and package not in MAP[own]
    ]
    assert wrong == []


def test_nothing_imports_the_roof() -> None:
    """Only the roof imports the roof."""
    assert [who for who, what, _ in IMPORTS if what in ROOF and who not in ROOF] == []


def test_no_circles() -> None:
    """No module reaches itself through imports, late ones included."""
    graph: dict[str, set[str]] = {}
    for who, what, _ in IMPORTS:
        if what in MODULES:
            graph.setdefault(who, set()).add(what)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as exc:
        pytest.fail(" -> ".join(exc.args[1]))


def test_imports_stand_at_the_top() -> None:
    """Imports inside of functions are the ones listed; none is relative."""
    assert {(who, what) for who, what, at_top in IMPORTS if not at_top} == LATE
    assert [who for who, what, _ in IMPORTS if what.startswith(".")] == []


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_is_known_to_few(library: str) -> None:
    """An outside library is imported exactly where the table says."""
    known = {who for who, what, _ in IMPORTS if what.partition(".")[0] == library}
    assert known == LIBRARIES[library]


@pytest.mark.parametrize("library", WITHIN)
def test_a_library_is_known_to_one_package(library: str) -> None:
    """The learner's libraries are imported nowhere else, so that the rest runs without them."""
    known = {who.partition(".")[0] for who, what, _ in IMPORTS if what.partition(".")[0] == library}
    assert known <= {WITHIN[library]}


def test_every_package_file_is_empty() -> None:
    """Names are imported from the module that defines them: `__init__.py` holds nothing."""
    found = [path for package in MAP for path in (ROOT / package).rglob("__init__.py")]
    assert [path.relative_to(ROOT) for path in found if path.read_text().strip()] == []


def test_scenario_code_knows_only_what_it_is_written_against() -> None:
    """The tools and verifiers of bundled worlds import scenarios.api, checks and errors, and no
    outside library but msgspec."""
    allowed = {"scenarios.api", "scenarios.checks", "scenarios.errors", "msgspec", "typing"}
    for path in (ROOT / "scenarios" / "bundled").glob("*/*.py"):
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
