"""The commands `suites` and `eval`, on a small benchmark in the format of the BFCL."""

import json
import tomllib
from pathlib import Path

import msgspec
import pytest

from rehearsal_room.cli.play.suites import with_defaults
from rehearsal_room.harness.settings.model import ModelSettings
from rehearsal_room.harness.settings.policy import PolicySettings
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.settings.worlds import WorldSettings
from rehearsal_room.scenarios.suites.catalogue import suite
from tests.support.cli import Rehearse, json_of
from tests.support.judged_runs import served
from tests.support.model_server import Completes
from tests.support.paths import SUITES

HERE = ("--suite-path", SUITES)


def test_the_suites_are_listed(rehearse: Rehearse) -> None:
    """Each suite has its categories and what it needs."""
    found = {one["name"]: one for one in json_of(rehearse, "eval", "list")}
    assert "multi_turn_base" in found["bfcl_v3"]["categories"]
    assert "pip install" in found["agentdojo"]["needs"]


@pytest.mark.slow
def test_reference_solutions_and_silence(rehearse: Rehearse, tmp_path: Path) -> None:
    """The reference solutions are the ceiling and doing nothing is the floor, beside every score;
    mutants are between them."""
    asked = ("eval", "bfcl_v3", "--category", "multi_turn_base", *HERE)
    report = json_of(rehearse, *asked, "-p", "oracle", "-o", tmp_path / "oracle")
    assert report["scores"] == {"multi_turn_base": 1.0}
    assert (report["floor"], report["ceiling"], report["overall"]) == (0.0, 1.0, None)
    assert (report["tasks"], report["episodes"], report["unjudged"]) == (2, 2, 0)
    mutated = json_of(rehearse, *asked, "-p", "mutant", "-k", 4, "-o", tmp_path / "mutant")
    assert mutated["episodes"] == 8
    assert mutated["scores"]["multi_turn_base"] < 1.0
    assert set(mutated["pass_hat_k"]) == {"1", "2", "3", "4"}
    assert mutated["statistics"]["completed"]["value"] == mutated["scores"]["multi_turn_base"]
    assert sum(mutated["failures"].values()) > 0


@pytest.mark.slow
def test_a_model_is_evaluated(rehearse: Rehearse, tmp_path: Path) -> None:
    """A model at a server plays, in the chat format and in a text dialect; where no call is right,
    a model without calls has everything."""
    with served(Completes("I do not know.")) as server:
        model = ("-m", "m", "--base-url", server.url)
        for number, (category, more, share) in enumerate(
            [
                ("multi_turn_base", (), 0.0),
                ("irrelevance", (), 1.0),
                ("irrelevance", ("--dialect", "hermes"), 1.0),
            ]
        ):
            asked = ("eval", "bfcl_v3", "--category", category, *HERE, *model, *more)
            report = json_of(rehearse, *asked, "-o", tmp_path / str(number))
            assert (report["scores"], report["policy"]) == ({category: share}, "openai")


@pytest.mark.parametrize(
    ("more", "expected", "name"),
    [
        ((), ("bfcl", 0.001, '{"store":false}', ["without:seed"]), "bfcl_v3"),
        (("--temperature", "0.7"), ("bfcl", 0.7, '{"store":false}', ["without:seed"]), "bfcl_v3"),
        (("--prompts", "ours"), ("native", None, "", []), "bfcl_v3 (prompts: ours)"),
        (("--dialect", "hermes"), ("hermes", None, "", []), "bfcl_v3 (prompts: ours)"),
    ],
)
def test_a_model_is_asked_as_upstream_asks_it(
    rehearse: Rehearse,
    tmp_path: Path,
    more: tuple[str, ...],
    expected: tuple[object, ...],
    name: str,
) -> None:
    """Unless the user chooses our prompts, or a dialect, which the score's name says then. What a
    model is sent is compared with upstream's own runner by `just parity bfcl`."""
    asked = ("eval", "bfcl_v3", "--task", "irrelevance_0", *HERE, *more)
    report = json_of(rehearse, *asked, "-p", "noop", "-o", tmp_path / "run")
    assert (report["suite"], report["tasks"]) == (name, 1)
    model = ("-p", "openai", "-m", "m", "--base-url", "http://127.0.0.1:9/v1")
    status, out, _ = rehearse(*asked, *model, "--dry-run")
    found = tomllib.loads(out)
    assert status == 0
    model_found = found.get("model", {})
    names = ("temperature", "extra_body", "adapt")
    assert (found.get("dialect", "native"), *map(model_found.get, names)) == expected


def test_agentdojo_has_the_limits_of_its_runner() -> None:
    """An attempt has 16 replies, a task three attempts; attacks address the model that plays, or
    the one that the user names. A policy without a model has no limit in an attempt. What a model
    is sent is compared with the package's own pipeline by `just parity agentdojo`."""
    played = Settings(policy=PolicySettings(name="openai"), model=ModelSettings(name="gpt-4o"))
    found = with_defaults(played, suite("agentdojo"), {})
    assert (found.limits.max_steps, found.limits.turn_steps) == (48, 16)
    assert found.worlds.suite_model == "gpt-4o"
    named = msgspec.structs.replace(played, worlds=WorldSettings(suite_model="Bob"))
    assert with_defaults(named, suite("agentdojo"), {}).worlds.suite_model == "Bob"
    assert with_defaults(played, suite("bfcl_v3"), {}).worlds.suite_model == ""
    solved = msgspec.structs.replace(played, policy=PolicySettings(name="oracle"))
    assert with_defaults(solved, suite("agentdojo"), {}).limits.turn_steps is None


@pytest.mark.parametrize("category", ["multi_turn_miss_func", "parallel", "simple_java"])
def test_every_kind_of_entry_is_played(rehearse: Rehearse, tmp_path: Path, category: str) -> None:
    """Withheld functions, several calls in one reply and other languages are played and scored."""
    asked = ("eval", "bfcl_v3", "--category", category, *HERE, "-p", "oracle")
    report = json_of(rehearse, *asked, "-o", tmp_path / "run")
    assert (report["scores"], report["floor"]) == ({category: 1.0}, 0.0)


def test_a_call_is_wrong_where_none_fits(rehearse: Rehearse, tmp_path: Path) -> None:
    """In the category about irrelevance silence is right, so the floor is as high as the
    ceiling."""
    asked = ("eval", "bfcl_v3", "--category", "irrelevance", *HERE, "-p", "random")
    report = json_of(rehearse, *asked, "-o", tmp_path / "run")
    assert (report["floor"], report["ceiling"]) == (1.0, 1.0)


@pytest.mark.slow
def test_a_suite_s_episodes_are_like_all_others(rehearse: Rehearse, tmp_path: Path) -> None:
    """They replay without a difference, are judged again with the same labels, and are exported."""
    run = tmp_path / "run"
    asked = ("eval", "bfcl_v3", "--category", "multi_turn_base", *HERE, "-p", "oracle")
    json_of(rehearse, *asked, "-o", run)
    replayed = json_of(rehearse, "replay", run)
    assert (replayed["episodes"], replayed["divergences"]) == (2, [])
    assert json_of(rehearse, "judge", run)["labels"]["completed"] == 2
    exported = tmp_path / "chats.jsonl"
    assert rehearse("export", run, "--to", "sft", "-o", exported)[0] == 0
    assert "Close the printer ticket and count." in exported.read_text()


@pytest.mark.slow
def test_an_evaluation_goes_on_after_an_interruption(rehearse: Rehearse, tmp_path: Path) -> None:
    """A run of which only a part was played is resumed, and has the scores of a whole one."""
    run = tmp_path / "run"
    asked = ("eval", "bfcl_v3", "--category", "multi_turn_base", *HERE, "-p", "oracle", "-o", run)
    first = json_of(rehearse, *asked)
    assert json_of(rehearse, *asked, "--resume") == first


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("eval", "bfcl_v9"), "suite 'bfcl_v9' not found; did you mean 'bfcl_v4' or 'bfcl_v3'?"),
        (("eval", "bfcl_v3", "--category", "sums"), "has no category 'sums'; categories: multi"),
        (("eval", "bfcl_v3", "--suite-path", "nowhere"), "there is no package 'bfcl_eval'"),
        (("eval", "bfcl_v3", "--suite-python", "/no/python"), "/no/python cannot be started"),
        (("eval", "bfcl_v3", *HERE, "--prompts", "upstream", "--dialect", "hermes"), "--prompts: "),
        (("eval", "agentdojo", "--suite-python", "/no/python"), "/no/python cannot be started"),
        (("eval", "agentdojo"), "has no package 'agentdojo': pip install"),
        (("eval", "agentdojo", "--category", "direkt_slack"), "did you mean 'direct_slack'"),
        (("eval", "agentdojo", "--suite-path", "."), "--suite-path: agentdojo is read where"),
    ],
)
def test_bad_input_is_one_sentence(
    rehearse: Rehearse, tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    """An unknown suite or category, a missing package and a missing interpreter: status 2."""
    status, _, err = rehearse(*arguments, "-p", "oracle", "-o", tmp_path / "run")
    assert status == 2
    assert sentence in err
    assert err.count("\n") == 1


def test_a_dialogue_can_be_read(rehearse: Rehearse, tmp_path: Path) -> None:
    """`show` has what the user said after each reply, and so has an export; other steps have no
    user."""
    run, exported = tmp_path / "run", tmp_path / "episodes.jsonl"
    asked = ("eval", "bfcl_v3", "--category", "multi_turn_base", *HERE, "-p", "oracle")
    assert rehearse(*asked, "-o", run)[0] == 0
    _, out, _ = rehearse("show", run, "e000000")
    assert "user: Close the printer ticket and count." in out
    assert "the user ends the talk" in out
    assert rehearse("export", run, "--to", "jsonl", "-o", exported)[0] == 0
    line = json.loads(exported.read_text().splitlines()[0])
    assert [step.get("user") for step in line["steps"]] == [
        None,
        {"text": "Close the printer ticket and count.", "ended": False, "calls": [], "results": []},
        None,
        None,
        {"text": "", "ended": True, "calls": [], "results": []},
    ]
    assert rehearse("export", run, "--to", "parquet", "-o", tmp_path / "e.parquet")[0] == 0
