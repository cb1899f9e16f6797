"""The worlds of a synthesis in AWM's eight files, for AWM's own loaders.

Rows are in the order of ideas.json. A world has rows in every file or in none, and only proved
tasks. Tools and verifiers are those of the package; the `server` module wraps the tools in FastAPI,
the `verifier` module lets verifiers read databases by path.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.scenarios.awm.join import CODE, DB, ENVS, SAMPLE, SCENARIO, SPEC, SQL, TASKS
from rehearsal_room.scenarios.errors import SynthesisError
from rehearsal_room.scenarios.format import AwmSample, AwmTable, Scenario, read
from rehearsal_room.scenarios.synth.awm_export.server import server_code
from rehearsal_room.scenarios.synth.awm_export.verifier import verifier_codes
from rehearsal_room.scenarios.synth.core.left_out import as_helpers, functions_of
from rehearsal_room.scenarios.synth.core.world_drafts import (
    ProvenTask,
    ScenarioIdea,
    ToolDraft,
    ToolParameter,
)
from rehearsal_room.scenarios.synth.pipeline import PROVED
from rehearsal_room.scenarios.synth.stages.ideas import IdeaPool
from rehearsal_room.scenarios.synth.storage.output_folder import (
    StageRecord,
    SynthesisFolder,
    read_json,
    record_value,
    write_atomically,
)

FILES = (SCENARIO, TASKS, DB, SAMPLE, SPEC, ENVS, SQL, CODE)
AwmRow = dict[str, Any]


def write_awm(folder: SynthesisFolder) -> Path:
    """Write all files again, each completely; return their folder.

    Raises SynthesisError and PackageError.
    """
    pool = read_json(folder.path / "ideas.json", IdeaPool)
    if pool is None:
        raise SynthesisError(f"{folder.path / 'ideas.json'}: the file is missing")
    rows: dict[str, list[AwmRow]] = {name: [] for name in FILES}
    for idea in pool.kept:
        if (folder.worlds / idea.key / "scenario.toml").is_file():
            scenario = read(folder.worlds / idea.key)
            for name, row in _rows(folder, idea, scenario):
                rows[name].append(row)
    for name, listed in rows.items():
        data = b"".join(msgspec.json.encode(row) + b"\n" for row in listed)
        write_atomically(folder.awm / name, data)
    return folder.awm


def _rows(
    folder: SynthesisFolder, idea: ScenarioIdea, scenario: Scenario
) -> Iterator[tuple[str, AwmRow]]:
    """Yield the rows of one world, each with its file."""
    name = idea.key
    tables = _value(folder, name, "schema", tuple[AwmTable, ...])
    samples = _value(folder, name, "data", tuple[AwmSample, ...])
    source = (scenario.path / "tools.py").read_text(encoding="utf-8")
    specified: tuple[ToolDraft, ...] = _value(folder, name, "tools", tuple[ToolDraft, ...])
    tools = tuple(tool for tool in specified if tool.name in functions_of(source))
    code = server_code(
        as_helpers(
            _value(folder, name, "code", str), {t.name for t in specified if t not in tools}
        ),
        tools,
        title=scenario.title,
        clock=scenario.clock,
        user=scenario.user,
    )
    database = {"scenario": name, "db_path": f"databases/{name}.db"}
    yield SCENARIO, _scenario_row(idea)
    yield TASKS, {"scenario": name, "tasks": [task.instruction for task in scenario.tasks]}
    yield DB, database | {"db_schema": {"tables": msgspec.to_builtins(tables)}}
    yield SAMPLE, _sample_row(name, samples)
    yield SPEC, {"scenario": name, "api_spec": {"api_groups": [_group(scenario, tools)]}}
    yield ENVS, database | {"full_code": code}
    for index, task in enumerate(scenario.tasks):
        proven = _value(folder, name, PROVED + task.id, ProvenTask)
        about = {"scenario": name, "task_idx": index, "task": task.instruction}
        codes = verifier_codes(
            proven.verifier, task.verifier, clock=scenario.clock, user=scenario.user
        )
        for file, text in zip((SQL, CODE), codes, strict=True):
            yield file, about | {"verification": {"code": text, "raw_response": ""}}


def _scenario_row(idea: ScenarioIdea) -> AwmRow:
    level = "high" if idea.score >= 8 else "medium" if idea.score >= 5 else "low"
    return {
        "name": idea.key,
        "description": idea.description,
        "categories": idea.categories,
        "suitability_score": idea.score,
        "suitability_level": level,
        "suitability_reasoning": idea.reason,
        "simulatable_features": idea.features,
        "non_simulatable_features": idea.missing,
    }


def _sample_row(name: str, samples: tuple[AwmSample, ...]) -> AwmRow:
    tables = [{"reasoning": "", **msgspec.to_builtins(sample)} for sample in samples]
    count = sum(len(sample.insert_statements) for sample in samples)
    return {
        "scenario": name,
        "tables_count": len(samples),
        "inserts_count": count,
        "sample_data": {"tables": tables},
    }


def _group(scenario: Scenario, tools: tuple[ToolDraft, ...]) -> AwmRow:
    return {"group_name": scenario.title, "endpoints": [_endpoint(tool) for tool in tools]}


def _endpoint(tool: ToolDraft) -> AwmRow:
    parameters = {name: _parameter(parameter) for name, parameter in tool.parameters.items()}
    return {
        "path": f"/{tool.name}",
        "method": "POST",
        "summary": tool.description[:80],
        "description": tool.description[:200],
        "operation_id": tool.name,
        "tags": ["tools"],
        "request_params": parameters,
        "response": {},
        "required_tables": sorted({*tool.reads, *tool.writes}),
        "required_fields": {},
    }


def _parameter(parameter: ToolParameter) -> AwmRow:
    fields = {
        "type": parameter.type,
        "param_type": "body",
        "required": parameter.required,
        "description": parameter.description,
    }
    return fields | ({"enum": parameter.enum} if parameter.enum else {})


def _value(folder: SynthesisFolder, world: str, stage: str, kind: Any) -> Any:
    file = folder.stage_file(world, stage)
    record: StageRecord | None = folder.record(world, stage)
    if record is None:
        raise SynthesisError(f"{file}: the file is missing")
    return record_value(record, kind, file)
