"""What an episode tells verifiers: data that a trace can keep."""

from typing import Any

from rehearsal_room.bridges.trainers.segments import reason_of, reward_of
from rehearsal_room.harness.core.events import Ending
from rehearsal_room.harness.core.trajectory import Trajectory

KEY = "rehearsal"  # in `trace.info`


def verdict_of(played: Trajectory) -> dict[str, Any]:
    """The reward (None: not judged, and `why`), the metrics, and where to find the episode."""
    assert played.ended is not None
    judged = played.judged[-1]
    findings = judged.findings
    passed = sum(finding.passed for finding in findings) / max(1, len(findings))
    return {
        "episode": played.episode,
        "reward": reward_of(played),
        "label": judged.label,
        "ending": played.ended.ending.value,
        "why": reason_of(played),
        "metrics": {
            "completed": float(judged.label == "completed"),
            "steps": float(played.ended.num_steps),
            "truncated": float(played.ended.ending.is_truncation),
            "format_error": float(played.ended.ending is Ending.FORMAT_ERROR),
            "checks_passed": passed,
        },
    }
