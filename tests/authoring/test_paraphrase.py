"""Rewording generated worlds by a model: what is checked, kept, cached and written."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from rehearsal_room.authoring.generate import generate_worlds
from rehearsal_room.authoring.paraphrase import CACHE, Paraphraser, ParaphraseResult
from rehearsal_room.judge.gate.package import check_scenario
from rehearsal_room.scenarios.format import read
from rehearsal_room.scenarios.generate.output_folder import GenerationOrder
from rehearsal_room.scenarios.generate.plan.knobs import Knobs
from rehearsal_room.scenarios.synth.core.protocols import ModelAnswer, PromptMessage, RequestPurpose
from tests.support.generated_worlds import QUICK

ORDER = GenerationOrder(
    seed=3, knobs=Knobs(tasks=3, rows=60), modules=("tickets",), paraphrase="editor"
)


class Editor:
    """An author model that answers with a function of the instruction."""

    def __init__(self, *answers: str) -> None:
        self._answers = answers  # `{}` stands for the instruction
        self.asked: list[str] = []

    async def answer(
        self, messages: Sequence[PromptMessage], purpose: RequestPurpose, *, seed: int
    ) -> ModelAnswer:
        """The next of the answers; the last one again at the end."""
        number = sum(message.role == "assistant" for message in messages)
        self.asked.append(messages[-1].text)
        answer = self._answers[min(number, len(self._answers) - 1)]
        return ModelAnswer(answer.replace("{}", messages[1].text))

    async def embed(self, texts: Sequence[str], purpose: RequestPurpose) -> list[list[float]]:
        """Not asked for."""
        raise AssertionError


async def reworded(folder: Path, editor: Editor) -> ParaphraseResult:
    """Generate a world in the folder and let the editor reword it."""
    made = generate_worlds(ORDER, 1, folder)
    records = list(made.manifest.worlds.values())
    paraphraser = Paraphraser("editor", editor, folder, 4)
    return await paraphraser.reword(ORDER, records, lambda done, total: None)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
async def test_accepted_wordings_replace_the_originals(tmp_path: Path) -> None:
    """The tasks have the model's words, the world passes the gate and is kept by a rerun, which
    asks the model nothing."""
    editor = Editor("Hi. {}")
    found = await reworded(tmp_path, editor)
    (record,) = found.manifest.worlds.values()
    package = tmp_path / record.plan.name
    assert [task.instruction[:4] for task in read(package).tasks] == ["Hi. "] * 3
    assert (found.num_reworded, found.num_kept, len(editor.asked)) == (3, 0, 3)
    assert check_scenario(package, QUICK).failures == ()
    again = Editor("other words")
    assert (await reworded(tmp_path, again)).manifest == found.manifest
    assert again.asked == []


@pytest.mark.anyio
async def test_a_wording_with_another_meaning_is_asked_for_again(tmp_path: Path) -> None:
    """The model gets a sentence about what is wrong; where no answer passes, the original stays."""
    editor = Editor("Also call Zacharias. {}", "Well, {}")
    found = await reworded(tmp_path, editor)
    assert (found.num_reworded, found.num_kept, found.num_asked) == (3, 0, 6)
    assert "it adds 'Zacharias'" in editor.asked[1] + editor.asked[-1]
    stubborn = Editor("Nothing of it.")
    other = tmp_path / "other"
    found = await reworded(other, stubborn)
    assert (found.num_reworded, found.num_kept, found.num_asked) == (0, 3, 9)


@pytest.mark.anyio
async def test_the_cache_gives_equal_bytes(tmp_path: Path) -> None:
    """A world that is made again has the same bytes, without a question to the model."""
    first = await reworded(tmp_path / "one", Editor("Hello. {}"))
    (tmp_path / "two").mkdir()
    generate_worlds(ORDER, 1, tmp_path / "two")
    (tmp_path / "two" / CACHE).write_bytes((tmp_path / "one" / CACHE).read_bytes())
    silent = Editor("not asked")
    second = await reworded(tmp_path / "two", silent)
    digests = [next(iter(one.manifest.worlds.values())).digest for one in (first, second)]
    assert digests[0] == digests[1] and silent.asked == []
