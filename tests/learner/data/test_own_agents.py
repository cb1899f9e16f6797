"""Training on what an agent of the user's own was sampled: a model that transformers computes, too,
behind an agent that has two helpers and forgets its history."""

from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from structlog.testing import capture_logs
from transformers import AutoModelForCausalLM

from rehearsal_room.bridges.trainers.segments import episode_of
from rehearsal_room.harness.core.token_bytes import decode_ids, encode_ids
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.learner.backends.naive import Naive
from rehearsal_room.learner.backends.twopass import TwoPass
from rehearsal_room.learner.core.samples import Group, Rollout
from rehearsal_room.learner.data.grouping import Grouping
from rehearsal_room.learner.data.trajectory_samples import rollout_of
from rehearsal_room.learner.model.plain_rows import plain_logprobs
from rehearsal_room.learner.packing.prefix_groups import batch_of
from tests.support.cli import Rehearse
from tests.support.paths import LIBRARY
from tests.support.prefix_groups import assert_equal, compute, step_rows
from tests.support.tiny_model import write_model


@pytest.fixture
def run(tmp_path: Path, rehearse: Rehearse) -> tuple[Path, list[Trajectory]]:
    """A run of the agent `branches` over a small model: the model's folder, and the episodes."""
    model = write_model(tmp_path / "model")
    words = ("-p", "local", "-m", model, "--agent", "tests.harness.agents.own:branches")
    status, _, err = rehearse("run", LIBRARY, "-n", 2, *words, "-o", tmp_path / "run")
    assert status == 0, err
    with open_reader(tmp_path / "run") as reader:
        return model, list(reader.trajectories())


def test_every_sampled_token_is_trained_once_where_it_was_sampled(
    run: tuple[Path, list[Trajectory]],
) -> None:
    """The samples of an agent with helpers and a compacted history have each token that the model
    sampled once. In the context that the log has, transformers gives each the log-probability with
    which it was sampled, and a training step on them is one on plain rows within 1e-5."""
    folder, episodes = run
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    rollouts: list[Rollout] = []
    for one in episodes:
        parents = [(asked.parent, asked.shared) for asked in one.asked]
        assert parents == [(None, 0), (0, 2), (None, 0), (2, 2), (None, 0), (4, 2), (None, 0)]
        rollout = rollout_of(one, where="run")
        sampled = [decode_ids(asked.reply.token_ids) for asked in one.asked if asked.reply]
        assert [sample.tokens.tolist() for sample in rollout.samples] == list(map(list, sampled))
        rows = [(sample.prompt.tolist(), sample.tokens.tolist()) for sample in rollout.samples]
        logged = np.concatenate([sample.logprobs for sample in rollout.samples])
        assert np.abs(plain_logprobs(model, rows).numpy() - logged).max() < 1e-4
        rollouts.append(rollout)
    group = Group("g", "library", "t", tuple(rollouts))
    advantages = [[[1.0 - 2 * n] * len(one.samples) for n, one in enumerate(rollouts)]]
    weights = [[[0.1] * len(one.samples) for one in rollouts]]
    batch = batch_of([group], advantages, weights)
    for prefix_group in batch.prefix_groups:
        plain = compute(Naive(), model, step_rows(prefix_group))
        assert_equal(compute(TwoPass(4096), model, prefix_group), plain, 1e-5)


def test_replies_of_an_unknown_context_are_left_out(run: tuple[Path, list[Trajectory]]) -> None:
    """Prompts are logged against the episode's first one. Where no reply to that is logged, those
    that share with it are left out, with a warning, and the others are trained as they are."""
    one = run[1][0]
    whole = rollout_of(one, where="run").samples
    replies = [asked.reply for asked in one.asked]
    assert replies[2] is not None and replies[2].prompt_shared > 0
    third = msgspec.structs.replace(
        replies[2], prompt_shared=0, prompt_ids=encode_ids(whole[2].prompt.tolist())
    )
    asked = [
        msgspec.structs.replace(each, reply=reply)
        for each, reply in zip(one.asked, [None, replies[1], third, *replies[3:]], strict=True)
    ]
    lost = msgspec.structs.replace(one, asked=tuple(asked))
    with capture_logs() as logged:
        (sample,) = rollout_of(lost, where="run").samples
    # The prompt is the same, divided in another way.
    assert [*sample.head.tolist(), *sample.prompt.tolist()] == whole[2].prompt.tolist()
    assert sample.tokens.tolist() == whole[2].tokens.tolist()
    (warning,) = logged
    assert (warning["event"], warning["left_out"], warning["of"]) == ("replies_left_out", 5, 6)


def test_an_agent_without_a_reply_is_left_out(tmp_path: Path, rehearse: Rehearse) -> None:
    """An agent that solves the task, or fails, without its model has no token to train: its group
    goes on without it, and a warning says so. One that fails after a reply is a failure."""
    model = write_model(tmp_path / "model")
    words = ("-p", "local", "-m", model, "--agent", "tests.harness.agents.own:uneven")
    task = f"{LIBRARY}:pay-fine"
    status, _, err = rehearse("run", task, "-g", 4, *words, "-o", tmp_path / "run")
    assert status == 0, err
    grouping = Grouping()
    with open_reader(tmp_path / "run") as reader, capture_logs() as logged:
        found = [grouping.add(one, where="run") for one in reader.trajectories()][-1]
    assert isinstance(found, Group)
    assert [(one.member, one.reward) for one in found.rollouts] == [(2, 1.0), (3, 0.0)]
    assert grouping.statistics().excluded["silent"] == 2
    assert {one["why"] for one in logged} == {"their agent got no reply of the model"}


def test_what_an_agent_asks_of_the_sampling_is_said_once(
    tmp_path: Path, rehearse: Rehearse
) -> None:
    """Tokens are drawn as the run's settings say: an agent that asks for something else is named
    in one warning, however often it asks."""
    model = write_model(tmp_path / "model")
    words = ("-p", "local", "-m", model, "--agent", "tests.harness.agents.own:warm")
    status, _, err = rehearse("run", LIBRARY, "-n", 2, *words, "-o", tmp_path / "run")
    assert status == 0
    assert err.count("agent_sampling_not_followed") == 1 and "['temperature', 'top_p']" in err


def test_branches_become_segments_of_trainers(run: tuple[Path, list[Trajectory]]) -> None:
    """For a trainer that takes sequences, each branch of the agent's conversations is one, in which
    the sampled tokens are marked; together they have every sampled token once."""
    for one in run[1]:
        episode = episode_of(one, where="run")
        marked = sum(sum(segment.mask) for segment in episode.segments)
        sampled = sum(len(decode_ids(asked.reply.token_ids)) for asked in one.asked if asked.reply)
        assert marked == sampled
        assert len(episode.segments) >= 4  # two helpers, before the compaction, and after it
