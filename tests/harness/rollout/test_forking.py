"""`rehearse run --from`: episodes that begin in the middle of a logged one."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.harness.continuation.forks import beginning_of, parse_fork
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.events import ForkedFrom, ForkEdit, StepTaken
from rehearsal_room.harness.core.messages import Act
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.writer import open_log
from rehearsal_room.harness.settings.run import resolve
from tests.support.attempts import cut_off
from tests.support.cli import Rehearse
from tests.support.paths import LIBRARY

TOKENS = b"\x01\x00\x00\x00"


def trajectories_of(folder: Path) -> list[Trajectory]:
    with open_reader(folder) as reader:
        return list(reader.trajectories())


def calls_of(trajectory: Trajectory) -> list[str]:
    return [
        call.name
        for step in trajectory.steps
        if isinstance(step.decision, Act)
        for call in step.decision.calls
    ]


def line_of(task: str, calls: list[dict[str, Any]], answer: str) -> str:
    line = {"scenario": "library", "task": task, "calls": calls, "answer": answer}
    return json.dumps(line) + "\n"


@pytest.fixture
def source(rehearse: Rehearse, tmp_path: Path) -> Path:
    """A run of the oracle on `lend-two`: six calls and an answer."""
    folder = tmp_path / "source"
    status, _, err = rehearse("run", f"{LIBRARY}:lend-two", "-o", folder)
    assert status == 0, err
    return folder


def test_a_group_from_the_middle(rehearse: Rehearse, source: Path, tmp_path: Path) -> None:
    """Each member begins with the resumed turns, in the same state, goes on with its own policy,
    and its log says from where it was forked."""
    fork = tmp_path / "fork"
    status, _, err = rehearse("run", "--from", f"{source}/e000000@3", "-g", 4, "-o", fork)
    assert status == 0, err
    (original,) = trajectories_of(source)
    forks = trajectories_of(fork)
    assert [(one.started.group, one.started.member) for one in forks] == [
        ("g000000", n) for n in range(4)
    ]
    for one in forks:
        assert one.started.forked_from == ForkedFrom(str(source), "e000000", 3)
        assert (one.started.kept, one.first_own_turn, one.num_context) == (3, 3, 3)
        assert one.started.start_digest == original.started.start_digest
        assert one.steps[:3] == original.steps[:3]
        assert calls_of(one) == calls_of(original)
        assert one.ended is not None and original.ended is not None
        assert one.ended.state == original.ended.state
    assert len({one.started.seed for one in (*forks, original)}) == 5


def test_a_fork_needs_no_source(rehearse: Rehearse, source: Path, tmp_path: Path) -> None:
    """Replay, judge, export and a resumed fork work when the source is gone."""
    fork, cut = tmp_path / "fork", tmp_path / "cut"
    flags = ("-g", 2, "-p", "mutant", "--history", "last:1")
    assert rehearse("run", "--from", f"{source}/e000000@4", *flags, "-o", fork)[0] == 0
    shutil.copytree(fork, cut)
    shutil.rmtree(source)
    status, out, err = rehearse("replay", fork)
    assert (status, "2 episodes" in out, "equal" in out) == (0, True, True), err
    assert rehearse("judge", fork)[0] == 0
    for to in ("jsonl", "parquet"):
        assert rehearse("export", fork, "--to", to)[0] == 0
    lines = [json.loads(line) for line in (fork / "episodes.jsonl").read_text().splitlines()]
    expected = {"run": str(source), "episode": "e000000", "turn": 4}
    assert [line["forked_from"] for line in lines] == [expected] * 2
    assert [len(line["steps"]) for line in lines] == [len(t.steps) for t in trajectories_of(fork)]


EDIT = {
    "instruction": "Lend nothing.",
    "turns": [
        {"calls": [{"name": "no_such_tool", "arguments": {}}]},
        {"text": "Hm.", "calls": [{"name": "find_books", "result": "The library burnt down."}]},
    ],
}


@pytest.mark.parametrize("num_records", [2, 4, 5, 6])
def test_an_edited_fork_is_resumed(
    rehearse: Rehearse, source: Path, tmp_path: Path, num_records: int
) -> None:
    """What somebody wrote comes after the resumed turns, with the result that was given; wherever
    a crash cuts it off, it goes on as if it had not, and no policy is asked for these turns. The
    edit may be a file, which nobody reads later."""
    fork, cut, file = tmp_path / "fork", tmp_path / "cut", tmp_path / "edit.json"
    file.write_text(json.dumps(EDIT))
    flags = ("--from", f"{source}/e000000@3", "--edit", file, "-g", 1)
    status, _, err = rehearse("run", *flags, "-o", fork)
    assert status == 0, err
    file.unlink()
    (one,) = trajectories_of(fork)
    assert one.started.edit == ForkEdit(2, trajectories_of(source)[0].started.instruction)
    assert one.started.instruction == EDIT["instruction"]
    assert (one.started.kept, one.first_own_turn, one.num_context) == (3, 5, 5)
    assert [result.error for result in one.steps[3].results] == ["unknown_tool"]
    assert one.steps[4].results == (
        ToolResult(
            "The library burnt down.", digest=one.steps[2].results[-1].digest, injected=True
        ),
    )
    anyio.run(cut_off, fork, cut, num_records)  # a start and three resumed turns are four records
    status, _, err = rehearse("run", "-o", cut, "--resume")
    assert status == 0, err
    (again,) = trajectories_of(cut)
    assert [(step.decision, step.results) for step in again.steps] == [
        (step.decision, step.results) for step in one.steps
    ]
    assert (again.started.edit, again.first_own_turn) == (one.started.edit, 5)
    assert again.started.instruction == one.started.instruction
    status, out, err = rehearse("replay", cut)
    assert (status, "equal" in out) == (0, True), err


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        ('{"turns": [{"text": "Done."}]}', "turn 4 ends the episode (answered)"),
        ('{"turns": [{}]}', "turn 4 has neither text nor calls"),
        ('{"turn": []}', "edit: turn: unknown key"),
        ('{"turns": [{"calls": [{"name": 7}]}]}', "edit: turns"),
        ("{", "edit: expected a JSON object"),
        ("nowhere.json", "edit: nowhere.json cannot be read"),
    ],
)
def test_an_edit_that_cannot_be_played(
    rehearse: Rehearse, source: Path, tmp_path: Path, edit: str, why: str
) -> None:
    """One sentence, and no run."""
    flags = ("--from", f"{source}/e000000@3", "--edit", edit)
    status, _, err = rehearse("run", *flags, "-o", tmp_path / "x")
    assert status == 2
    assert why in " ".join(err.split())
    assert not (tmp_path / "x").exists()
    status, _, err = rehearse("run", str(LIBRARY), "--edit", "{}", "-o", tmp_path / "x")
    assert (status, "name the fork" in err) == (2, True)


@pytest.mark.parametrize("num_records", [3, 5, 7])
def test_a_fork_is_resumed(
    rehearse: Rehearse, source: Path, tmp_path: Path, num_records: int
) -> None:
    """A fork that a crash cut off goes on after its last turn; where the crash cut the resumed
    turns, they come from the source. Once the log has them, the source is not needed."""
    fork, cut = tmp_path / "fork", tmp_path / "cut"
    assert rehearse("run", "--from", f"{source}/e000000@4", "-g", 2, "-o", fork)[0] == 0
    anyio.run(cut_off, fork, cut, num_records)  # a start and four resumed turns are five records
    if num_records >= 5:
        shutil.rmtree(source)
    status, _, err = rehearse("run", "-o", cut, "--resume")
    assert status == 0, err
    facts = [[(step.decision, step.results) for step in one.steps] for one in trajectories_of(cut)]
    assert facts == [
        [(step.decision, step.results) for step in one.steps] for one in trajectories_of(fork)
    ]
    assert {one.first_own_turn for one in trajectories_of(cut)} == {4}


def test_a_resumed_fork_keeps_its_tokens(rehearse: Rehearse, source: Path, tmp_path: Path) -> None:
    """The resumed turns of a resumed fork are those of its own log, token ids included, so that all
    members of its groups see the same ones whether or not the source is still there."""
    fork, cut = tmp_path / "fork", tmp_path / "cut"
    assert rehearse("run", "--from", f"{source}/e000000@2", "-g", 2, "-o", fork)[0] == 0
    anyio.run(rewrite, fork, cut, with_tokens)
    shutil.rmtree(source)
    beginning = beginning_of(resolve(cut / "run.toml", {}), cut, [])
    assert beginning is not None
    assert [step.reply.token_ids for step in beginning.steps] == [TOKENS] * 2


def test_a_script_goes_on_after_the_kept_calls(
    rehearse: Rehearse, source: Path, tmp_path: Path
) -> None:
    """A policy of known calls goes on after as many calls as the resumed turns made."""
    script = tmp_path / "script.jsonl"
    calls = [{"name": "get_member", "arguments": {"member_id": n}} for n in (1, 2, 3, 2)]
    script.write_text(line_of("lend-two", calls, "Done."))
    fork = tmp_path / "fork"
    status, _, err = rehearse(
        *("run", "--from", f"{source}/e000000@2", "-p", "scripted", "--script", script),
        *("-o", fork),
    )
    assert status == 0, err
    (one,) = trajectories_of(fork)
    own = [step.decision for step in one.steps[2:] if isinstance(step.decision, Act)]
    assert [call.arguments for act in own for call in act.calls] == [
        {"member_id": 3},
        {"member_id": 2},
    ]


def test_a_fork_of_a_fork_and_turn_zero(rehearse: Rehearse, source: Path, tmp_path: Path) -> None:
    """A fork can be forked; with 0 turns nothing is kept."""
    first, second, start = tmp_path / "first", tmp_path / "second", tmp_path / "start"
    assert rehearse("run", "--from", f"{source}/e000000@2", "-o", first)[0] == 0
    assert rehearse("run", "--from", f"{first}/e000000@4", "-o", second)[0] == 0
    assert rehearse("run", "--from", f"{source}/e000000@0", "-o", start)[0] == 0
    (original,), (one,), (zero,) = map(trajectories_of, (source, second, start))
    assert one.started.forked_from == ForkedFrom(str(first), "e000000", 4)
    assert one.steps[:2] == original.steps[:2]
    assert one.steps[2:4] == trajectories_of(first)[0].steps[2:4]
    assert (zero.started.kept, calls_of(zero)) == (0, calls_of(original))


def test_chats_of_forks_mask_the_kept_turns(
    rehearse: Rehearse, source: Path, tmp_path: Path
) -> None:
    """`export --to sft` gives the assistant's messages of resumed turns the weight 0."""
    fork = tmp_path / "fork"
    assert rehearse("run", "--from", f"{source}/e000000@3", "-o", fork)[0] == 0
    for folder, masked in ((fork, 3), (source, 0)):
        assert rehearse("export", folder, "--to", "sft")[0] == 0
        file = folder / "sft" / "chats.jsonl"
        (chat,) = [json.loads(line) for line in file.read_text().splitlines()]
        replies = [one for one in chat["messages"] if one["role"] == "assistant"]
        weights = [one.get("weight") for one in replies]
        assert weights == [0] * masked + [None] * (len(replies) - masked)


def test_other_settings(rehearse: Rehearse, source: Path, tmp_path: Path) -> None:
    """A fork has the settings of its source's run, unless other ones are given."""
    fork = tmp_path / "fork"
    flags = ("--history", "last:2", "--seed", 5, "--max-steps", 9)
    status, out, err = rehearse("run", "--from", f"{source}/e000000@1", *flags, "--dry-run")
    assert status == 0, err
    assert f'forked_from = "{source}/e000000@1"' in out
    assert rehearse("run", "--from", f"{source}/e000000@1", *flags, "-o", fork)[0] == 0
    (one,) = trajectories_of(fork)
    assert (one.started.history, one.started.policy) == ("last:2", "oracle")
    assert [step.first_turn for step in one.steps[1:4]] == [0, 0, 1]


def test_a_file_of_settings_forks(rehearse: Rehearse, source: Path, tmp_path: Path) -> None:
    """A settings file may name the source; scenario and task follow from it, and where the file
    states others, the sentence says which were expected."""
    file, fork = tmp_path / "fork.toml", tmp_path / "fork"
    file.write_text(f'forked_from = "{source}/e000000@2"\ngroup_size = 3\n')
    assert rehearse("run", "--config", file, "-o", fork)[0] == 0
    assert [one.started.kept for one in trajectories_of(fork)] == [2, 2, 2]
    status, _, err = rehearse("run", "--config", file, f"{LIBRARY}:pay-fine", "-o", tmp_path / "x")
    assert status == 2
    assert "is an episode of library:lend-two" in err


REFUSED = {
    "no turn": ("{}/e000000", "is not an episode and a turn"),
    "not a turn": ("{}/e000000@x", "is not an episode and a turn"),
    "no episode": ("{}/e000009@1", "there is no episode 'e000009'"),
    "no run": ("{}-not/e000000@1", "there is no log"),
    "too many": ("{}/e000000@99", "so 99 cannot be kept"),
    "the end": ("{}/e000000@7", "turn 7 ends the episode (answered); keep 6 or fewer"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_forked(rehearse: Rehearse, source: Path, tmp_path: Path, name: str) -> None:
    """A source that is not there, or that no episode can go on from, is one sentence, exit status
    2, and no run folder."""
    text, sentence = REFUSED[name]
    fork = tmp_path / "fork"
    status, _, err = rehearse("run", "--from", text.format(source), "-o", fork)
    assert (status, fork.exists()) == (2, False)
    assert sentence in err
    assert len([line for line in err.splitlines() if "error" in line]) == 1


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--dialect", "hermes"), "is in dialect native, not hermes"),
        (("--max-steps", 3), "so none is left to play"),
        (("library",), "name no scenario"),
        (("--mcp", "server"), "do not reveal their state"),
    ],
)
def test_settings_that_do_not_fit(
    rehearse: Rehearse, source: Path, tmp_path: Path, flags: Any, sentence: str
) -> None:
    """Settings under which the resumed turns make no sense are refused by a sentence."""
    fork = tmp_path / "fork"
    status, _, err = rehearse("run", "--from", f"{source}/e000000@3", *flags, "-o", fork)
    assert (status, fork.exists()) == (2, False)
    assert sentence in err


def test_a_world_that_does_not_repeat(rehearse: Rehearse, source: Path, tmp_path: Path) -> None:
    """Where a kept call has another result now, the fork is refused; it is not played from another
    state."""
    forged, fork = tmp_path / "forged", tmp_path / "fork"
    anyio.run(rewrite, source, forged, with_other_digest)
    status, _, err = rehearse("run", "--from", f"{forged}/e000000@3", "-o", fork)
    assert status == 2
    assert "cannot be repeated: call c0-0" in err
    assert not fork.exists()


async def rewrite(source: Path, to: Path, change: Callable[[StepTaken], StepTaken]) -> None:
    """A copy of a run whose steps are changed."""
    with open_reader(source) as reader:
        records = [record for _, record in reader.records_after(0)]
    async with open_log(to) as log:
        for record in records:
            event = change(record.event) if isinstance(record.event, StepTaken) else record.event
            log.append(msgspec.structs.replace(record, event=event))
    shutil.copy(source / "run.toml", to)


def with_other_digest(step: StepTaken) -> StepTaken:
    results = [msgspec.structs.replace(result, digest="0" * 32) for result in step.results]
    return msgspec.structs.replace(step, results=tuple(results))


def with_tokens(step: StepTaken) -> StepTaken:
    return msgspec.structs.replace(
        step, reply=msgspec.structs.replace(step.reply, token_ids=TOKENS)
    )


def test_parsing() -> None:
    """The run may be any path; the episode follows the last slash."""
    assert parse_fork("runs/a@b/e000003@5") == ForkedFrom("runs/a@b", "e000003", 5)
    assert parse_fork("./e1@0") == ForkedFrom(".", "e1", 0)
    for text in ("", "e000003@5", "runs/@5", "runs/e@", "runs/e@-1", "runs/e@²"):
        with pytest.raises(SettingsError, match="RUN/EPISODE@TURN"):
            parse_fork(text)
