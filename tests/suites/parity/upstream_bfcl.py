"""The BFCL's own runner, in the interpreter that has its package: generation by its handler for
chat completions, then its evaluation. Nothing of it is replaced.

Input: a line of JSON, {"url", "folder", "entries": {category: [id]}, "adapter": file of our
adapter}; no ids: the whole category. Output: a line for each entry, {"id", "valid", "texts",
"state"}, and at last {"scores", "overall", "leaderboard"}: the accuracies that it wrote, the third
version's formula by its own functions, and the tables that it wrote. Entries that others depend on
have no "valid", and their "state" is the snapshot that they left.

The package imports the libraries of all vendors' models. Those that are not installed are stood in
for by empty modules; what the runner itself uses must be there.
"""

import csv
import importlib
import importlib.abc
import importlib.machinery
import json
import os
import sys
import types
from pathlib import Path
from typing import Any

MODEL = "openbmb/MiniCPM-SALA-FC"  # uses the handler for chat completions as it is
VENDORS = (
    *("anthropic", "boto3", "botocore", "cohere", "faiss", "google", "httpx_sse", "mistralai"),
    *("qwen_agent", "rank_bm25", "sentence_transformers", "soundfile", "torch", "transformers"),
    *("writerai", "html2text", "serpapi"),
    *("datamodel_code_generator", "ibm_watsonx_ai", "huggingface_hub"),
)


class _Every(type):
    """A class that has every name."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Every(name, (Exception,), {})


class _Stand(types.ModuleType):
    """An empty module that has every name."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_Every("stand", (), {}), name)


class _Stands(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the vendors' libraries that are not installed."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] not in VENDORS:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> types.ModuleType:
        return _Stand(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """An empty module has no code."""


def main() -> None:
    """Play and evaluate; results go to standard output, upstream's own words to standard error."""
    asked = json.loads(sys.stdin.readline())
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    folder = Path(asked["folder"])
    os.environ |= {"BFCL_PROJECT_ROOT": str(folder), "OPENAI_API_KEY": "none"}
    sys.meta_path.append(_Stands())
    from bfcl_eval import _llm_response_generation as generation
    from bfcl_eval.eval_checker.eval_runner import main as evaluate

    threads = asked.get("threads", 8)
    for category, ids in asked["entries"].items():
        os.environ["OPENAI_BASE_URL"] = f"{asked['url']}/upstream/{category}/v1"
        (folder / "test_case_ids_to_generate.json").write_text(json.dumps({category: ids}))
        run_ids = bool(ids)
        generation.main(
            types.SimpleNamespace(
                model=[MODEL],
                test_category=[category],
                temperature=0.001,
                include_input_log=False,
                exclude_state_log=True,
                num_gpus=1,
                num_threads=threads,
                gpu_memory_utilization=0.9,
                backend="vllm",
                skip_server_setup=False,
                local_model_path=None,
                result_dir=None,
                allow_overwrite=False,
                run_ids=run_ids,
                enable_lora=False,
                max_lora_rank=None,
                lora_modules=None,
            )
        )
    evaluate([MODEL], list(asked["entries"]), None, None, partial_eval=True)
    _report(asked, folder, answers)


def _report(asked: dict[str, Any], folder: Path, answers: Any) -> None:
    from bfcl_eval.eval_checker import eval_runner_helper as helper
    from bfcl_eval.eval_checker.multi_turn_eval import multi_turn_utils
    from bfcl_eval.utils import load_dataset_entry

    adapter = _adapter(asked["adapter"])
    name = MODEL.replace("/", "_")
    scores: dict[str, Any] = {}
    for category in asked["entries"]:
        score_file = next((folder / "score" / name).rglob(f"BFCL_v4_{category}_score.json"))
        header, *failed = map(json.loads, score_file.read_text().splitlines())
        scores[category] = header
        wrong = {one["id"] for one in failed}
        results = next((folder / "result" / name).rglob(f"BFCL_v4_{category}_result.json"))
        entries = {one["id"]: one for one in load_dataset_entry(category)}
        for line in results.read_text().splitlines():
            result = json.loads(line)
            id = result["id"]
            found = {"id": id, "valid": id not in wrong, "texts": _texts(result)}
            if category.startswith("multi_turn"):
                found["state"] = _state(adapter, multi_turn_utils, entries[id])
            answers.write(json.dumps(found) + "\n")
        if category.startswith("memory"):
            _report_talks(folder / "result" / name, category, answers)
    accuracies = {one: header["accuracy"] for one, header in scores.items()}
    found = {"scores": accuracies, "overall": _overall(helper, scores)}
    found["leaderboard"] = _tables(folder / "score")
    if tables := asked.get("tables"):
        found["tables"] = [_leaderboard(helper, table, folder / "made") for table in tables]
    answers.write(json.dumps(found) + "\n")


def _report_talks(results: Path, category: str, answers: Any) -> None:
    """The talks before the questions, with the memory that each left."""
    file = next(results.rglob(f"BFCL_v4_{category}_prereq_result.json"))
    for line in file.read_text().splitlines():
        result = json.loads(line)
        left = next(results.rglob(f"prereq_checkpoints/{result['id']}.json"), None)
        state = None if left is None else json.loads(left.read_text())
        found = {"id": result["id"], "valid": None, "texts": _texts(result), "state": state}
        answers.write(json.dumps(found) + "\n")


def _leaderboard(helper: Any, table: dict[str, Any], folder: Path) -> dict[str, dict[str, str]]:
    """What the leaderboard shows where the categories have these accuracies and counts."""
    folder.mkdir(exist_ok=True)
    value = {
        name: {"accuracy": accuracy, "total_count": count}
        for name, (accuracy, count) in table.items()
    }
    helper.generate_leaderboard_csv({MODEL.replace("/", "_"): value}, folder)
    return _tables(folder)


def _tables(folder: Path) -> dict[str, dict[str, str]]:
    """The only row of each table that is there, by the table's name."""
    found = {}
    for file in sorted(folder.glob("data_*.csv")):
        with file.open(newline="") as rows:
            found[file.stem.removeprefix("data_")] = next(csv.DictReader(rows))
    return found


def _texts(result: dict[str, Any]) -> list[str]:
    """What the calls returned, in their order."""
    turns = result.get("inference_log") or []
    return [
        one["content"]
        for turn in turns
        if isinstance(turn, dict)
        for name, step in turn.items()
        if name.startswith("step_")
        for one in step
        if one["role"] == "tool"
    ]


def _adapter(file: str) -> Any:
    """The module of our adapter, whose way to write a state is used for both sides."""
    folder, _, name = file.rpartition("/")
    package = sys.modules["rehearsal_adapters"] = types.ModuleType("rehearsal_adapters")
    package.__path__ = [folder]  # it imports what adapters share
    return importlib.import_module(f"rehearsal_adapters.{name.removesuffix('.py')}")


def _state(adapter: Any, utils: Any, entry: dict[str, Any]) -> dict[str, str | None]:
    """The records that differ at the end from those at the start; None: the record is gone."""
    import re

    from bfcl_eval.constants.executable_backend_config import (
        CLASS_FILE_PATH_MAPPING,
        STATELESS_CLASSES,
    )

    suite = types.SimpleNamespace(paths=CLASS_FILE_PATH_MAPPING, stateless=STATELESS_CLASSES)
    spec = {
        "classes": entry["involved_classes"],
        "config": entry["initial_config"],
        "long_context": "long_context" in entry["id"],
    }
    model = MODEL.replace("/", "_").replace("-", "_").replace(".", "_")
    ends = {}
    for name in entry["involved_classes"]:
        instance = re.sub(r"[-./:]", "_", f"{model}_{entry['id']}_{name}_instance")
        ends[name] = vars(utils)[instance]
    start = _records(adapter, adapter.Bfcl.world(suite, spec))
    end = _records(adapter, ends)
    changed = {key: value for key, value in end.items() if start.get(key) != value}
    return changed | dict.fromkeys(start.keys() - end.keys())


def _records(adapter: Any, world: dict[str, Any]) -> dict[str, str]:
    found = {}
    for kind, key, value in adapter.Bfcl.records(None, world):
        try:
            found[f"{kind} {key}"] = json.dumps(value, sort_keys=True, default=str)
        except TypeError:
            found[f"{kind} {key}"] = json.dumps(value, default=str)
    return found


def _overall(helper: Any, scores: dict[str, Any]) -> float | None:
    """The overall score of the leaderboard's third version; None: not all of it was played."""

    def of(*names: str) -> list[dict[str, Any]]:
        return [{**scores[name], "display_accuracy": ""} for name in names]

    mean, weighted = helper.calculate_unweighted_accuracy, helper.calculate_weighted_accuracy
    try:
        simple = mean(of("simple_python", "simple_java", "simple_javascript"))
        others = of("multiple", "parallel", "parallel_multiple", "irrelevance")
        live = of("live_simple", "live_multiple", "live_parallel", "live_parallel_multiple")
        live += of("live_irrelevance", "live_relevance")
        kinds = ("base", "miss_func", "miss_param", "long_context")
        turns = mean(of(*(f"multi_turn_{kind}" for kind in kinds)))
    except KeyError:
        return None
    return float(mean([weighted(live), mean([simple, *others]), turns])["accuracy"])


if __name__ == "__main__":
    main()
