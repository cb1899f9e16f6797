"""Rewording the instructions of generated worlds by a model, without changing what they say.

Each wording is checked (see scenarios.generate.tasks.rewordings); where none of a few passes, the
original stays. Accepted wordings are kept in the folder's paraphrases.jsonl under the model and the
original, so that the same order gives the same bytes without asking again.
"""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path

import anyio
import msgspec

from rehearsal_room.authoring.author import ModelAuthor
from rehearsal_room.harness.chat.budget import Budget
from rehearsal_room.harness.chat.prices import Prices
from rehearsal_room.harness.policies.openai import OpenAISettings
from rehearsal_room.scenarios.files import UNREADABLE
from rehearsal_room.scenarios.format import Task, read
from rehearsal_room.scenarios.generate.core.errors import GenerateError
from rehearsal_room.scenarios.generate.core.package import tasks_toml
from rehearsal_room.scenarios.generate.output_folder import (
    GenerationOrder,
    Manifest,
    WorldRecord,
    lock_folder,
    replace_tasks,
    write_manifest,
)
from rehearsal_room.scenarios.generate.tasks.rewordings import rewording_fault
from rehearsal_room.scenarios.synth.core.protocols import AuthorModel, PromptMessage, RequestPurpose
from rehearsal_room.scenarios.synth.storage.spending import SpendingLedger

CACHE = "paraphrases.jsonl"
_MAX_TOKENS = 1_000
_TRIES = 3
_SYSTEM = """\
You reword requests that people send to the back office of a business. Say the same thing as the \
same kind of person might have typed it: other sentences, another order, the same register. Keep \
every name, number, date, quoted text, condition and exception exactly; add none. Do not write \
lists or headings. Answer with the reworded request and nothing else."""


class Paraphrase(msgspec.Struct, frozen=True):
    """An accepted wording, or the original where none was accepted."""

    key: str  # of model, prompt and original
    text: str
    why: str = ""  # why the original stayed; empty: it did not


class ParaphraseOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The model that rewords."""

    model: str
    base_url: str = ""  # empty: that of the environment
    concurrency: int = 8  # requests at the same time


class ParaphraseResult(msgspec.Struct, frozen=True):
    """What became of the instructions of a folder."""

    manifest: Manifest
    num_reworded: int
    num_kept: int  # no wording passed the check
    num_asked: int  # requests to the model


class ParaphraseCache:
    """The wordings of a folder. Raises GenerateError for a file that cannot be read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, Paraphrase] = {}
        if not path.exists():
            return
        try:
            for line in path.read_bytes().splitlines():
                known = msgspec.json.decode(line, type=Paraphrase)
                self._known[known.key] = known
        except (OSError, *UNREADABLE) as exc:
            raise GenerateError(f"{path}: it cannot be read as paraphrases: {exc}") from exc

    def get(self, key: str) -> Paraphrase | None:
        """A known wording."""
        return self._known.get(key)

    def add(self, found: Paraphrase) -> None:
        """Keep a wording, in the file at once."""
        self._known[found.key] = found
        try:
            with self._path.open("ab") as file:
                file.write(msgspec.json.encode(found) + b"\n")
        except OSError as exc:
            raise GenerateError(f"{self._path}: it cannot be written: {exc}") from exc


class Paraphraser:
    """Rewords the tasks of a folder of generated worlds."""

    def __init__(self, model: str, author: AuthorModel, folder: Path, concurrency: int) -> None:
        self._model = model
        self._author = author
        self._folder = folder
        self._cache = ParaphraseCache(folder / CACHE)
        self._limit = anyio.CapacityLimiter(concurrency)
        self.num_asked = 0

    async def reword(
        self,
        order: GenerationOrder,
        records: Sequence[WorldRecord],
        report_progress: Callable[[int, int], None],
    ) -> ParaphraseResult:
        """Reword every task of these worlds that is not reworded yet, and write the worlds.

        Raises GenerateError and SynthesisError; what was done is kept, and a rerun goes on.
        """
        done: dict[str, WorldRecord] = {}

        async def one(record: WorldRecord) -> None:
            done[record.plan.name] = await self._reword_world(record)
            report_progress(len(done), len(records))

        async with anyio.create_task_group() as group:
            for record in records:
                group.start_soon(one, record)
        ordered = [done[record.plan.name] for record in records]
        tasks = [task for record in ordered for task in record.tasks]
        reworded = sum(task.paraphrased is True for task in tasks)
        manifest = write_manifest(self._folder, order, ordered)
        return ParaphraseResult(manifest, reworded, len(tasks) - reworded, self.num_asked)

    async def _reword_world(self, record: WorldRecord) -> WorldRecord:
        if all(task.paraphrased is not None for task in record.tasks):
            return record
        package = self._folder / record.plan.name
        tasks = read(package).tasks
        found: list[Paraphrase] = [await self._paraphrase(task) for task in tasks]
        new = [
            msgspec.structs.replace(task, instruction=one.text)
            for task, one in zip(tasks, found, strict=True)
        ]
        features = tuple(
            msgspec.structs.replace(measured, paraphrased=not one.why)
            for measured, one in zip(record.tasks, found, strict=True)
        )
        return replace_tasks(package, record, tasks_toml(new), features)

    async def _paraphrase(self, task: Task) -> Paraphrase:
        key = _key(self._model, task.instruction)
        if (known := self._cache.get(key)) is not None:
            return known
        async with self._limit:
            found = await self._ask(task, key)
        self._cache.add(found)
        return found

    async def _ask(self, task: Task, key: str) -> Paraphrase:
        messages = [PromptMessage("system", _SYSTEM), PromptMessage("user", task.instruction)]
        why = said = ""
        for attempt in range(_TRIES):
            self.num_asked += 1
            answer = await self._author.answer(
                messages, RequestPurpose("paraphrase", task.id), seed=_seed(key) + attempt
            )
            text = answer.text.strip()
            why = answer.fault or rewording_fault(task.instruction, text, said)
            if not why:
                return Paraphrase(key, text)
            correction = f"That does not say the same: {why}. Reword the request again."
            said += f"{correction}\n"
            messages = [*messages[:2], PromptMessage("assistant", text or "…")]
            messages.append(PromptMessage("user", correction))
        return Paraphrase(key, task.instruction, why)


async def paraphrase_worlds(
    folder: Path,
    order: GenerationOrder,
    records: Sequence[WorldRecord],
    options: ParaphraseOptions,
    report_progress: Callable[[int, int], None],
) -> ParaphraseResult:
    """Reword the tasks of a folder that an order made. Raises GenerateError, SynthesisError and
    SettingsError."""
    model = OpenAISettings(
        options.model,
        base_url=options.base_url or None,
        temperature=1.0,
        max_tokens=_MAX_TOKENS,
        seed=order.seed,
    )
    with lock_folder(folder, order):
        ledger = SpendingLedger(folder / "ledger.jsonl")
        async with ModelAuthor(
            model, prices=Prices(), budget=Budget(None, spent=ledger.usd), ledger=ledger
        ) as author:
            paraphraser = Paraphraser(options.model, author, folder, options.concurrency)
            return await paraphraser.reword(order, records, report_progress)


def _key(model: str, instruction: str) -> str:
    return blake2b(f"{model}\0{_SYSTEM}\0{instruction}".encode(), digest_size=16).hexdigest()


def _seed(key: str) -> int:
    return int(key[:7], 16)
