"""τ²-bench's banking_knowledge: a task is a scenario, whose rules depend on the retrieval."""

import shutil
from pathlib import Path

import pytest

from rehearsal_room.envpool.sources.base import SourceArguments
from rehearsal_room.envpool.sources.suites import SuiteWorlds
from rehearsal_room.scenarios.core.dialogue import ModelUser
from rehearsal_room.scenarios.errors import PackageError, UnknownScenario
from rehearsal_room.scenarios.suites.catalogue import suite
from rehearsal_room.scenarios.suites.suite_flags import SuiteFlags
from rehearsal_room.scenarios.suites.tau2_banking import CATEGORY, BankingData
from tests.support.paths import SUITES

CHECKOUT = SUITES / "tau2_checkout"
_ONE = "## Closing\n\nTo close an account, unlock close_account_1."
_TWO = "## Reading\n\nUnlock read_account_2."


def copied(folder: Path) -> Path:
    """A copy of the checkout, and its folder of banking."""
    shutil.copytree(CHECKOUT, folder / "tau2")
    return folder / "tau2" / "data" / "tau2" / "domains" / "banking_knowledge"


@pytest.mark.parametrize(
    ("variant", "rules"),
    [
        ("bm25", ("Be a good agent. Search.",) * 2),
        ("golden_retrieval", (f"Be a good agent.\n{_ONE}", f"Be a good agent.\n{_TWO}")),
    ],
)
def test_rules_are_the_retrievals(variant: str, rules: tuple[str, ...]) -> None:
    """A prompt is put together from its parts and from the documents that the task names, by title
    or id; one that there is not is left out."""
    found = BankingData(str(CHECKOUT), variant).scenarios(CATEGORY)
    assert tuple(one.rules for one in found) == rules


def test_all_documents_are_in_the_rules() -> None:
    """With full_kb the agent has every document, in whatever order the folder lists them."""
    one, _ = BankingData(str(CHECKOUT), "full_kb").scenarios(CATEGORY)
    assert one.rules in [
        f"Be a good agent.\n{first}\n\n---\n\n{second}"
        for first, second in ((_ONE, _TWO), (_TWO, _ONE))
    ]


def test_a_task_has_its_own_tools_and_reads() -> None:
    """The customer's tools, the reads that are recorded, and the tools that nobody is shown."""
    scenarios = BankingData(str(CHECKOUT), "bm25").scenarios(CATEGORY)
    assert [one.name for one in scenarios] == ["banking_task_001", "banking_task_002"]
    users = [one.tasks[0].user for one in scenarios]
    assert [one.tools for one in users if isinstance(one, ModelUser)] == [("apply",), ()]
    prompts = [one.prompt for one in users if isinstance(one, ModelUser)]
    assert ["with a phone" in one for one in prompts] == [True, False]  # the guidelines for tools
    records = [one.suite for one in scenarios if one.suite]
    assert [one.world["reads"] for one in records] == [["close_account_1"], ["read_account_2"]]
    assert {"close_account_1", "read_account_2"} < set(records[0].unlisted)
    assert records[0].users_unlisted == ("apply", "list_accounts", "dispute_3")
    assert not set(records[0].unlisted) & set(records[0].users_unlisted)


def test_a_task_that_the_stale_file_has_otherwise_says_so() -> None:
    """tasks.json beside the tasks is not read but to say where it differs."""
    one, two = BankingData(str(CHECKOUT), "bm25").scenarios(CATEGORY)
    assert "tasks.json has another text of it, which is stale" in one.description
    assert "stale" not in two.description


def test_only_the_stale_file_is_refused(tmp_path: Path) -> None:
    """Without the files of the tasks, what there is is named, and what to do."""
    data = copied(tmp_path)
    shutil.rmtree(data / "tasks")
    with pytest.raises(PackageError, match=r"no task_\*.json here, and tasks.json beside it is"):
        _ = BankingData(str(tmp_path / "tau2"), "bm25").version


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    """A task that is not JSON, and a prompt that is missing."""
    data = copied(tmp_path)
    (data / "prompts" / "components" / "base.md").unlink()
    with pytest.raises(PackageError, match=r"base.md: it cannot be read"):
        BankingData(str(tmp_path / "tau2"), "bm25").scenarios(CATEGORY)
    (data / "tasks" / "task_002.json").write_text('{"id": ')
    with pytest.raises(PackageError, match=r"task_002.json: it is not JSON"):
        BankingData(str(tmp_path / "tau2"), "bm25").scenarios(CATEGORY)


@pytest.mark.parametrize("text", ["{}", "[]", "7", '{"id": "task_002", "user_scenario": null}'])
def test_a_task_of_another_shape_is_one_sentence(tmp_path: Path, text: str) -> None:
    """JSON of another form, as after a change by hand."""
    data = copied(tmp_path)
    (data / "tasks" / "task_002.json").write_text(text)
    flags = SuiteFlags(folder=str(tmp_path / "tau2"))
    worlds = SuiteWorlds(SourceArguments(suite="tau2_banking_bm25", suite_flags=flags))
    with pytest.raises(PackageError, match=r"'banking' cannot be read .*is the checkout complete"):
        worlds.names([CATEGORY])


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("tau2_banking_alltools", "needs embeddings from OpenAI .* srt, rg, bwrap and socat"),
        ("tau2_banking_alltools-qwen", "needs embeddings from OpenRouter .* and the programs srt"),
        ("tau2_banking_terminal_use_write", "needs the programs srt, rg, bwrap and socat"),
        ("tau2_banking_qwen_embeddings_reranker", "OpenRouter .* and a model of OpenAI that ranks"),
        ("tau2_banking", "scores of different retrievals do not compare"),
        ("tau2_banking_bm26", "did you mean 'tau2_banking_bm25'"),
    ],
)
def test_a_retrieval_that_is_not_played_is_refused(name: str, sentence: str) -> None:
    """With what it needs, and the names of those that are played."""
    with pytest.raises(UnknownScenario, match=sentence):
        suite(name)
