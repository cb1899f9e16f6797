"""Scores calls with the BFCL's own checkers, in the interpreter that has the package.

Input: a line of JSON for each case, {"id", "turns": [[call text]], "category"}, or for an answer to
a single-turn entry {"id", "calls": [{"name", "arguments"}], "category"}; output: a line with `true`
or `false` for each. Upstream keeps its instances by name, so each case has its own name.
"""

import json
import sys
import types
from typing import Any


class _AnyModel(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        return types.SimpleNamespace(underscore_to_dot=True)


def main() -> None:
    """Answer until the input ends."""
    models = types.ModuleType("bfcl_eval.constants.model_config")
    models.MODEL_CONFIG_MAPPING = _AnyModel()  # type: ignore[attr-defined]
    sys.modules[models.__name__] = models
    from pathlib import Path

    import bfcl_eval
    from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import (
        multi_turn_checker,
        multi_turn_irrelevance_checker,
    )

    data = Path(bfcl_eval.__file__).parent / "data"
    known: dict[str, tuple[dict[str, Any], list[list[str]]]] = {}
    for number, line in enumerate(sys.stdin):
        case = json.loads(line)
        if not known or case["id"] not in known:
            name = f"BFCL_v4_{case['category']}.json"
            entries = [json.loads(one) for one in (data / name).read_text().splitlines()]
            answers = (data / "possible_answer" / name).read_text().splitlines()
            truths = {one["id"]: one["ground_truth"] for one in map(json.loads, answers)}
            known |= {entry["id"]: (entry, truths[entry["id"]]) for entry in entries}
        entry, truth = known[case["id"]]
        if "calls" in case:
            sys.stdout.write(f"{json.dumps(_is_right(case, entry, truth))}\n")
            continue
        turns = [[turn] if turn else [] for turn in case["turns"]]
        verdict = multi_turn_checker(turns, truth, entry, case["category"], f"case{number}")
        valid = verdict["valid"] and multi_turn_irrelevance_checker(turns, truth)["valid"]
        sys.stdout.write(f"{json.dumps(valid)}\n")


def _is_right(case: dict[str, Any], entry: dict[str, Any], truth: Any) -> bool:
    """The verdict on a single-turn answer."""
    from bfcl_eval.constants.enums import Language
    from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker

    category = case["category"]
    language = Language.PYTHON
    if category == "simple_java":
        language = Language.JAVA
    if category == "simple_javascript":
        language = Language.JAVASCRIPT
    calls = [{one["name"]: one["arguments"]} for one in case["calls"]]
    found = ast_checker(entry["function"], calls, truth, language, category, "any")
    return bool(found["valid"])


if __name__ == "__main__":
    main()
