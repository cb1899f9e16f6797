"""Training files: strict, filled up from a profile, and refused with the field's name."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from rehearsal_room.learner.config.loader import read_settings, settings_of
from rehearsal_room.learner.config.profiles import with_profile
from rehearsal_room.learner.config.runs import runs_of
from rehearsal_room.learner.config.settings import (
    DataSettings,
    LossSettings,
    OptimizerSettings,
    TrainSettings,
)
from rehearsal_room.learner.core.errors import ConfigError

ROLLOUTS: dict[str, Any] = {"scenarios": ["shop_support"], "group_size": 8}
LEAST: dict[str, Any] = {"model": "models/start", "rollouts": ROLLOUTS}


def written(folder: Path, text: str) -> Path:
    path = folder / "train.toml"
    path.write_text(text)
    return path


def test_a_file_is_read_with_the_fields_defaults(tmp_path: Path) -> None:
    """What the file leaves out has the default of the settings."""
    path = written(
        tmp_path,
        """
        model = "models/start"
        steps = 20
        [rollouts]
        scenarios = ["shop_support"]
        group_size = 8
        [loss]
        policy = "gspo"
        scope = "episode"
        [optimizer]
        lr = 1
        """,
    )
    assert read_settings(path) == TrainSettings(
        model="models/start",
        steps=20,
        rollouts=ROLLOUTS,
        loss=LossSettings(policy="gspo", scope="episode"),
        optimizer=OptimizerSettings(lr=1.0),
    )


@pytest.mark.parametrize(
    ("loss", "aggregate"),
    [
        ({}, "token"),
        ({"policy": "gspo"}, "step"),
        ({"policy": "gspo", "scope": "episode"}, "episode"),
        ({"policy": "gspo", "aggregate": "token"}, "token"),
        ({"policy": "cispo", "scope": "episode"}, "token"),
    ],
)
def test_gspo_aggregates_its_sequences(loss: dict[str, Any], aggregate: str) -> None:
    """Losses are averaged over tokens; those of GSPO over its sequences, unless the file states
    another unit. The settings have the unit that is used."""
    assert settings_of({**LEAST, "loss": loss}).loss.aggregate == aggregate


@pytest.mark.parametrize(
    ("loss", "sentence"),
    [
        ({"aggregate": "constant"}, "loss.constant_length: aggregate 'constant' divides by it"),
        ({"constant_length": 9}, "loss.constant_length: has an effect only with aggregate"),
        ({"dual_clip": 3.0, "policy": "gspo"}, "loss.dual_clip: has an effect only with loss"),
        ({"dual_clip": 1.0}, "loss.dual_clip: must be more than 1, found 1"),
        ({"cispo_low": 6.0}, "loss.cispo_low: must be at most cispo_high (5), found 6"),
    ],
)
def test_a_loss_setting_without_effect_is_refused(loss: dict[str, Any], sentence: str) -> None:
    """A setting that the chosen loss would ignore, or that contradicts another, is an error."""
    with pytest.raises(ConfigError) as caught:
        settings_of({**LEAST, "loss": loss})
    assert str(caught.value).startswith(sentence)


def test_the_awm_profile_is_what_its_authors_published() -> None:
    """arXiv:2602.10090: rate, batch, mini-batch, rollouts, divergence, bounds, decoding."""
    settings = settings_of({"model": "m", "profile": "awm"})
    assert settings == TrainSettings(
        model="m",
        profile="awm",
        steps=96,
        rollouts={
            "group_size": 16,
            "history": "last:3",
            "dialect": "awm",
            "model": {"temperature": 1.0, "max_tokens": 2048},
            "limits": {"max_steps": 20},
            "format": {"rules": "awm", "reward": -1.0, "stop": True},
            "judge": {"rewards": "awm"},
        },
        data=DataSettings(groups=64),
        loss=LossSettings(
            policy="clip",
            advantage="mean_std",
            rewards="episode",
            clip_high=0.28,
            kl=0.001,
            entropy=0.0,
            mismatch="step",
        ),
        optimizer=OptimizerSettings(lr=7e-7, schedule="constant", minibatches=4),
    )


def test_the_file_wins_over_its_profile() -> None:
    """Field by field, in tables as well; what neither contains is the default."""
    settings = settings_of(
        {
            "model": "m",
            "profile": "awm",
            "steps": 5,
            "rollouts": {"group_size": 4, "scenarios": ["a"]},
            "loss": {"kl": 0.0},
        }
    )
    assert settings.steps == 5
    assert settings.rollouts["group_size"] == 4
    assert settings.rollouts["scenarios"] == ["a"]
    assert settings.rollouts["history"] == "last:3"
    assert (settings.loss.kl, settings.loss.clip_high, settings.loss.clip_low) == (0.0, 0.28, 0.2)


def test_a_profile_fills_up_an_evaluation_only_where_there_is_one() -> None:
    """A file that asks for no evaluation gets none."""
    assert "evaluation" not in with_profile({"profile": "awm"})
    assert with_profile({"profile": "awm", "evaluation": {}})["evaluation"] == {}
    assert with_profile({"profile": "awm", "evaluation": {"history": "last:3"}})["evaluation"] == {
        "history": "last:3",
        "model": {"temperature": 0.6, "top_p": 0.95},
    }


def test_settings_that_were_filled_up_stay_as_they_are_when_read_again() -> None:
    """A run's resolved settings name their profile still."""
    settings = settings_of({"model": "m", "profile": "awm", "loss": {"kl": 0.0}})
    assert settings_of(msgspec.to_builtins(settings)) == settings


def test_a_profile_is_not_changed_by_those_who_take_it() -> None:
    """The next file gets it as it was."""
    first = with_profile({"profile": "awm", "loss": {"kl": 0.5}})
    first["rollouts"]["group_size"] = 1
    first["loss"]["clip_high"] = 9.0
    assert with_profile({"profile": "awm"})["rollouts"]["group_size"] == 16
    assert with_profile({"profile": "awm"})["loss"]["clip_high"] == 0.28


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"modle": "x"}, "modle: unknown key; did you mean 'model'?"),
        ({"loss": {"polcy": "clip"}}, "loss.polcy: unknown key; did you mean 'policy'?"),
        ({"steps": "many"}, "steps: expected a whole number, found 'many'"),
        (
            {"loss": {"aggregate": "sequence"}},
            "loss.aggregate: 'sequence' is not one of 'constant', 'episode', 'step', 'token'",
        ),
        ({"profile": "amw"}, "profile: 'amw' is not one of '', 'awm'"),
        (
            {"rollouts": {"group_sise": 8}},
            "[rollouts] group_sise: unknown key; did you mean 'group_size'?",
        ),
        (
            {"rollouts": {"max_steps": 8, "limits": {"max_steps": 9}}},
            "[rollouts] max_steps: it is also in the table [limits]",
        ),
        ({"steps": 0}, "steps: must be at least 1, found 0"),
        (
            {"rollouts": {"scenarios": ["shop_support"], "processes": 2}},
            "rollouts.processes: training plays its episodes in its own process, where the policy "
            "gets each version of the weights; leave it out",
        ),
        ({"data": {"groups": 0}}, "data.groups: must be at least 1, found 0"),
        (
            {"data": {"check_prompts": 1.5}},
            "data.check_prompts: must be at least 0 and at most 1, found 1.5",
        ),
        ({"loss": {"clip_high": -0.1}}, "loss.clip_high: must be at least 0, found -0.1"),
        (
            {"loss": {"tv_bound": 0.0}},
            "loss.tv_bound: must be more than 0 and at most 1, found 0.0",
        ),
        ({"optimizer": {"lr": 0.0}}, "optimizer.lr: must be more than 0, found 0.0"),
        ({"optimizer": {"lr": float("nan")}}, "optimizer.lr: must be more than 0, found nan"),
        ({"optimizer": {"lr": float("inf")}}, "optimizer.lr: must be more than 0, found inf"),
        (
            {"optimizer": {"betas": [0.9, 1.0]}},
            "optimizer.betas[1]: must be at least 0 and less than 1, found 1.0",
        ),
        (
            {"compute": {"seed": -1}},
            "compute.seed: must be at least 0 and at most 2147483647, found -1",
        ),
        (
            {"compute": {"seed": 2**62}},
            f"compute.seed: must be at least 0 and at most 2147483647, found {2**62}",
        ),
        ({"compute": {"threads": 0}}, "compute.threads: must be at least 1, found 0"),
        (
            {"data": {"groups": 2}, "optimizer": {"minibatches": 3}},
            "optimizer.minibatches: a batch of 2 groups (data.groups) cannot be split into 3",
        ),
        (
            {"rollouts": {}},
            "rollouts: there is nothing to learn from; add this table, data.logs or data.messages",
        ),
        (
            {"rollouts": {"scenarios": ["a"]}},
            "rollouts.group_size: advantage 'mean_std' compares episodes of one task, "
            "so it must be at least 2, found 1",
        ),
        (
            {"loss": {"policy": "likelihood"}},
            "loss.advantage: loss 'likelihood' imitates good episodes and does not compare them: "
            "it needs 'reward', found 'mean_std'",
        ),
        (
            {"loss": {"policy": "likelihood", "advantage": "reward"}},
            "data.keep_equal: must be true for loss 'likelihood', which also learns from groups "
            "whose episodes are all good",
        ),
        (
            {"lora": {"targets": ["q_proj"]}},
            "lora.rank: is 0, so no adapters are trained and the other settings of [lora] have no"
            " effect: set it to 1 or more, for example 16, or leave out [lora]",
        ),
        ({"lora": {"rank": -1}}, "lora.rank: must be at least 0, found -1"),
        (
            {"loss": {"mismatch": "off", "mismatch_above": "mask"}},
            "loss.mismatch_above: has an effect only with weights, but mismatch is 'off'",
        ),
        (
            {"loss": {"reject_low": 0.5}},
            "loss.reject: is 'off', so reject_low and reject_high have no effect",
        ),
        (
            {"loss": {"overlong_from": 100}},
            "loss.overlong_to: must be more than overlong_from (100), for example"
            " rollouts.max_tokens, found 0",
        ),
        (
            {"loss": {"rewards": "step", "length_penalty": 0.1}},
            "loss.rewards: overlong_from and length_penalty change the rewards of whole episodes:"
            " set it to 'episode'",
        ),
        (
            {"data": {"fill": True, "revisit_solved": 1_000_000}},  # a plan of so many episodes
            "data.revisit_solved: must be at least 1 and at most 100, found 1000000",
        ),
        (
            {"data": {"revisit_solved": 2}},
            "data.revisit_solved, data.revisit_never: other tasks are played in place of those that"
            " are skipped, so data.fill must be true, and the rollouts live",
        ),
        (
            {"data": {"messages": ["a.jsonl"], "logs": ["a"]}},
            "data.messages: leave out data.logs; a run learns from one or the other",
        ),
        (
            {"loss": {"policy": "distill"}},
            "loss.reference: loss 'distill' imitates a model: name the folder of the teacher, which"
            " has the same tokenizer",
        ),
        (
            {"data": {"completed_only": True, "keep_equal": True}},
            "loss.advantage: with data.completed_only no failure is left to compare with: it needs"
            " 'reward', found 'mean_std'",
        ),
        (
            {"data": {"completed_only": True}, "loss": {"advantage": "reward"}},
            "data.keep_equal: must be true for data.completed_only, which leaves episodes of equal"
            " rewards",
        ),
        (
            {
                "data": {"completed_only": True, "keep_equal": True},
                "loss": {"advantage": "reward", "shuffle": True},
            },
            "loss.shuffle: has no effect on equal rewards, which data.completed_only leaves",
        ),
        (
            {
                "data": {"keep_equal": True},
                "loss": {"policy": "distill", "reference": "t", "length_penalty": 0.1},
            },
            "loss.length_penalty: changes rewards, which play no part in loss 'distill': leave it"
            " out",
        ),
        (
            {
                "data": {"messages": ["a.jsonl"], "keep_equal": True},
                "loss": {"policy": "likelihood", "advantage": "reward", "shuffle": True},
            },
            "loss.shuffle: has no effect on conversations of others, which have no verdicts and no"
            " rewards: leave it or data.messages out",
        ),
        (
            {
                "data": {"messages": ["a.jsonl"], "keep_equal": True, "completed_only": True},
                "loss": {"policy": "likelihood", "advantage": "reward"},
            },
            "data.completed_only: has no effect on conversations of others, which have no verdicts"
            " and no rewards: leave it or data.messages out",
        ),
        (
            {
                "rollouts": {"group_size": 1},
                "data": {"keep_equal": True},
                "loss": {"advantage": "reward", "shuffle": True},
            },
            "loss.shuffle: has no effect in groups of one episode (rollouts.group_size): leave it"
            " out",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_fields_name(
    more: dict[str, Any], sentence: str
) -> None:
    """One sentence, with what was found and what may be."""
    with pytest.raises(ConfigError) as caught:
        settings_of(LEAST | more, source="train.toml: ")
    assert str(caught.value) == f"train.toml: {sentence}"


def test_cloning_reads_logs_of_single_episodes() -> None:
    """Groups of one are enough where nothing is compared."""
    settings = settings_of(
        {
            "model": "m",
            "data": {"logs": ["runs/oracle"], "keep_equal": True},
            "loss": {"policy": "likelihood", "advantage": "reward"},
        }
    )
    assert settings.data == DataSettings(logs=("runs/oracle",), keep_equal=True)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("model = ", "not valid TOML: Invalid value"),
        ("steps = 3", "model: required, but missing"),
    ],
)
def test_a_file_that_is_no_training_file_is_named(tmp_path: Path, text: str, fault: str) -> None:
    """The message begins with the file."""
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        read_settings(path)
    assert str(caught.value).startswith(f"{path}: {fault}")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """With the system's reason."""
    path = tmp_path / "none.toml"
    with pytest.raises(ConfigError) as caught:
        read_settings(path)
    assert str(caught.value).startswith(f"{path}: the file is missing")


def test_no_errors_are_planted_in_evaluations() -> None:
    """An experiment's judge errs in what is trained on; what is measured has to be true, unless the
    table says otherwise itself."""
    given = {
        "model": "m",
        "rollouts": {"scenarios": ["a"], "group_size": 2, "judge_errors": "0.2/0.2"},
        "loop": {"evaluate_every": 1},
    }
    runs = runs_of(settings_of(given))
    assert runs.evaluation is not None
    assert (runs.rollouts.judge.errors, runs.evaluation.judge.errors) == ("0.2/0.2", "")
    own = runs_of(settings_of({**given, "evaluation": {"judge_errors": "0/0.1"}})).evaluation
    assert own is not None and own.judge.errors == "0/0.1"


@pytest.mark.parametrize(
    ("vllm", "rollouts", "sentence"),
    [
        ({"python": "p"}, {"policy": "local"}, "python: no run of this training has policy 'vllm'"),
        (
            {"python": "p"},
            {"policy": "vllm", "base_url": "http://127.0.0.1:8000/v1"},
            "python: starts a server, so leave out base_url",
        ),
        ({"args": ["-v"]}, {"policy": "vllm"}, "args: has no effect without python"),
    ],
)
def test_a_server_of_the_runs_own_needs_work(
    vllm: dict[str, Any], rollouts: dict[str, Any], sentence: str
) -> None:
    """A server that nobody would use, and one that is named elsewhere, are refused."""
    table = {"scenarios": ["a"], "group_size": 2, **rollouts}
    with pytest.raises(ConfigError, match=sentence):
        runs_of(settings_of({"model": "m", "vllm": vllm, "rollouts": table}))
