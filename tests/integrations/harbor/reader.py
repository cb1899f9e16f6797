"""Read trajectories with Harbor's own models, and compare them with our export of the episodes.

    python tests/integrations/harbor/reader.py TRAJECTORIES.jsonl EPISODES.jsonl

Runs in the environment of the door, which has Harbor without its dependencies.
"""

import json
import sys
from pathlib import Path

from harbor.models.trajectories import Trajectory


def main(trajectories: Path, episodes_file: Path) -> None:
    """Validate and compare; raises at the first difference."""
    episodes = {one["episode"]: one for one in map(json.loads, episodes_file.open())}
    num_calls = num_ids = 0
    with trajectories.open() as lines:
        for line in lines:
            document = json.loads(line)
            trajectory = Trajectory.model_validate(document)
            assert trajectory.schema_version == "ATIF-v1.8"
            assert trajectory.model_dump(mode="json", exclude_unset=True) == document
            episode = episodes.pop(document["extra"]["rehearsal"]["episode"])
            num_calls += _compare(trajectory, episode)
            num_ids += sum(
                len(step.metrics.completion_token_ids or ())
                for step in trajectory.steps
                if step.metrics
            )
    assert not episodes, f"missing: {sorted(episodes)}"
    size = trajectories.stat().st_size
    sys.stdout.write(
        f"{trajectories.parent.name}: {num_calls} calls, {num_ids} token ids, {size:,} bytes\n"
    )


def _compare(trajectory: Trajectory, episode: dict) -> int:
    ours = trajectory.extra["rehearsal"]
    for name in ("scenario", "task", "seed", "ending", "answer", "label", "reward", "step_rewards"):
        assert ours[name] == episode[name], name
    assert trajectory.final_metrics.total_steps == len(trajectory.steps)
    agent = [step for step in trajectory.steps if step.source == "agent"]
    taken = [step for step in agent if not step.extra["rehearsal"].get("summary")]
    assert len(taken) == len(episode["steps"])
    assert len(agent) - len(taken) == len(episode["summaries"])
    count = 0
    for step, expected in zip(taken, episode["steps"], strict=True):
        assert step.message == expected["text"]
        calls = step.tool_calls or []
        assert [(c.function_name, c.arguments) for c in calls] == [
            (c["name"], c["arguments"]) for c in expected["calls"]
        ]
        results = step.observation.results if step.observation else []
        if expected["format_error"] is not None:
            assert [one.content for one in results] == [expected["format_error"]]
            continue
        assert [one.content for one in results] == [
            f"Error: {one['text']}" if one["is_error"] else one["text"]
            for one in expected["results"]
        ]
        assert [one.source_call_id for one in results] == [call.tool_call_id for call in calls]
        count += len(calls)
    kept = episode["forked_from"]["turn"] if episode["forked_from"] else 0
    assert sum(step.is_copied_context is True for step in agent) == kept
    return count


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
