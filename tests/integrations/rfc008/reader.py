"""OpenEnv's own report model and severity policy accept our report of the gate's findings.

    python tests/integrations/rfc008/reader.py REPORT.json...

Runs in the environment of the door, which has pydantic, and OpenEnv without its other dependencies.
"""

import json
import sys
import sysconfig
from importlib import import_module
from pathlib import Path
from types import ModuleType

PACKAGES = Path(sysconfig.get_path("purelib"))
for _name in ("openenv", "openenv.validation"):  # without what their `__init__` needs
    sys.modules[_name] = ModuleType(_name)
    sys.modules[_name].__path__ = [str(PACKAGES.joinpath(*_name.split(".")))]
policies = import_module("openenv.validation.policy")
reports = import_module("openenv.validation.report")
words = import_module("openenv.validation.types")


def main(paths: list[Path]) -> None:
    """Validate, and compare ids, levels and verdict with the policy's."""
    file = PACKAGES / "openenv" / "validation" / "policies" / "severity-v2.json"
    policy = policies.SeverityPolicy.model_validate(json.loads(file.read_text()))
    levels = {entry.check_id: entry.level for entry in policy.entries}
    for path in paths:
        report = reports.ValidationReportV2.model_validate_json(path.read_bytes())
        assert {one.check_id for one in report.results} == set(levels)
        assert policies.apply_policy(report.results, policy, words.Lane.HUB) is report.verdict
        run = {
            levels[one.check_id]
            for one in report.results
            if one.status is not words.CheckStatus.SKIP
        }
        assert set(report.levels_run) == run
        assert all(one.evidence for one in report.results if one.status is words.CheckStatus.SKIP)
        sys.stdout.write(f"{path.name}: {report.verdict.value}, levels {sorted(map(int, run))}\n")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
