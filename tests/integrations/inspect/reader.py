"""Read an .eval log with inspect_ai, and compare every sample with our own export of the episodes:
scores, labels, calls with results, messages that the model saw, row changes.

    python tests/integrations/inspect/reader.py LOG.eval EPISODES.jsonl

Runs in the environment of the door; it imports no module of Rehearsal.
"""

import json
import sys
from pathlib import Path

from inspect_ai.log import (
    EvalSample,
    read_eval_log,
    read_eval_log_sample,
    read_eval_log_sample_summaries,
)


def main(log_file: Path, episodes_file: Path) -> None:
    """Compare; raises AssertionError at the first difference."""
    episodes = {one["episode"]: one for one in map(json.loads, episodes_file.open())}
    log = read_eval_log(str(log_file), resolve_attachments="full")
    assert log.version == 2 and log.samples is not None and log.results is not None
    assert log.results.total_samples == len(log.samples) == len(episodes)
    found = {sample.metadata["episode"] for sample in log.samples}
    assert found == set(episodes)
    num_calls = num_changes = 0
    for sample in log.samples:
        episode = episodes[sample.metadata["episode"]]
        _scores(sample, episode)
        num_calls += _calls(sample, episode)
        num_changes += _changes(sample, episode)
        _inputs(sample, episode)
    summaries = read_eval_log_sample_summaries(str(log_file))
    assert {(one.id, one.epoch) for one in summaries} == {(s.id, s.epoch) for s in log.samples}
    first = log.samples[0]
    alone = read_eval_log_sample(str(log_file), first.id, first.epoch)
    assert len(alone.events) == len(first.events)
    _results(log.results, episodes)
    sys.stdout.write(
        f"{log_file.parent.name}: {len(episodes)} episodes, {num_calls} calls,"
        f" {num_changes} row changes, {log_file.stat().st_size:,} bytes\n"
    )


def _scores(sample: EvalSample, episode: dict) -> None:
    scores = sample.scores or {}
    if episode["reward"] is None:
        assert episode["judge"] not in scores
    else:
        score = scores[episode["judge"]]
        assert score.value == episode["reward"]
        assert score.answer == episode["answer"]
        assert score.metadata["label"] == episode["label"]
        assert tuple(score.metadata["step_rewards"]) == tuple(episode["step_rewards"])
    assert sample.metadata.get("label") == episode["label"]
    assert sample.metadata.get("ending") == episode["ending"]
    events = [event.score.value for event in sample.events if event.event == "score"]
    assert events == [score.value for score in scores.values()]


def _calls(sample: EvalSample, episode: dict) -> int:
    """Tool events are the episode's calls and results; model outputs have the calls, too."""
    expected = [
        (call["name"], call["arguments"], result["text"], result["is_error"])
        for step in episode["steps"]
        for call, result in _pairs(step)
    ]
    tools = [event for event in sample.events if event.event == "tool"]
    assert [(e.function, e.arguments, e.result, e.error is not None) for e in tools] == expected
    asked = [
        (call.function, call.arguments)
        for event in sample.events
        if event.event == "model"
        for call in event.output.choices[0].message.tool_calls or []
    ]
    agents = [(c["name"], c["arguments"]) for step in episode["steps"] for c in step["calls"]]
    assert asked == agents
    return len(expected)


def _pairs(step: dict) -> list:
    source = step["user"] or step
    return list(zip(source["calls"], source["results"], strict=True))


def _changes(sample: EvalSample, episode: dict) -> int:
    """Applying the patches to nothing gives the net change of the episode."""
    net: dict[str, tuple] = {}
    for event in sample.events:
        if event.event != "state":
            continue
        for change in event.changes:
            first = net[change.path][0] if change.path in net else change.replaced
            net[change.path] = (first, change.value)
    found = {path: pair for path, pair in net.items() if not _same(*pair)}
    expected = {
        _path(one["table"], one["key"]): (one["before"], one["after"])
        for one in episode["state_diff"]
    }
    assert found == expected, (found, expected)
    return len(expected)


def _same(before: object, after: object) -> bool:
    return json.dumps(before) == json.dumps(after)


def _path(table: str, key: list) -> str:
    text = json.dumps(key, separators=(",", ":"), ensure_ascii=False)
    if len(key) == 1 and isinstance(key[0], int | str):
        text = str(key[0])
    return "/" + "/".join(part.replace("~", "~0").replace("/", "~1") for part in (table, text))


def _inputs(sample: EvalSample, episode: dict) -> None:
    """Each model event has its input back, beginning with the head; the history is whole."""
    models = [event for event in sample.events if event.event == "model"]
    assert len(models) == len(episode["steps"]) + len(episode["summaries"])
    for event in models:
        assert event.input, "an input was not resolved"
        assert any(episode["instruction"] in message.text for message in event.input[:2])
        assert event.input[0].id == sample.messages[0].id
    texts = [message.text for message in sample.messages if message.role == "assistant"]
    assert len(texts) == len(episode["steps"])


def _results(results, episodes: dict) -> None:
    for score in results.scores:
        judged = [e for e in episodes.values() if e["judge"] == score.name and e["label"]]
        completed = sum(e["label"] == "completed" for e in judged)
        assert score.scored_samples == len(judged)
        assert abs(score.metrics["pass_rate"].value - completed / len(judged)) < 1e-12


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
