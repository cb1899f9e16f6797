"""OpenEnv's own report model and severity policy accept our report of the gate's findings.

    python tests/doors/rfc008/reader.py REPORT.json...

Runs in the environment of the door, with the files of OpenEnv's wheel on the path.
"""

import sys
from pathlib import Path

from openenv.validation.policy import apply_policy, load_policy
from openenv.validation.report import ValidationReportV2
from openenv.validation.types import CheckStatus, Lane


def main(paths: list[Path]) -> None:
    """Validate, and compare ids, levels and verdict with the policy's."""
    policy = load_policy("v2")
    levels = {entry.check_id: entry.level for entry in policy.entries}
    for path in paths:
        report = ValidationReportV2.model_validate_json(path.read_bytes())
        assert {one.check_id for one in report.results} == set(levels)
        assert apply_policy(report.results, policy, Lane.HUB) is report.verdict
        run = {levels[one.check_id] for one in report.results if one.status is not CheckStatus.SKIP}
        assert set(report.levels_run) == run
        assert all(one.evidence for one in report.results if one.status is CheckStatus.SKIP)
        sys.stdout.write(f"{path.name}: {report.verdict.value}, levels {sorted(map(int, run))}\n")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
