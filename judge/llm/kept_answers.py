"""Answers of a model to the questions of a benchmark's own score, kept on disk.

A question is known by its messages and its model. So an episode that is judged again, and one whose
judging was broken off between two windows of its talk, asks nothing twice. An answer that was paid
for is stored before it is used.
"""

import json
from hashlib import blake2b

from rehearsal_room.harness.core.events import ModelJudgement
from rehearsal_room.judge.llm.client import ChatJudgeModel
from rehearsal_room.judge.llm.verdict_cache import VerdictCache


class KeptAnswers:
    """Asks a model what the cache does not know (judge.suites.runner.AskModel)."""

    def __init__(self, model: ChatJudgeModel, cache: VerdictCache) -> None:
        self._model = model
        self._cache = cache

    async def __call__(self, messages: list[dict[str, str]]) -> tuple[str, ModelJudgement]:
        """See AskModel."""
        name = self._model.name
        question = _digest(messages)
        known = await self._cache.get_answer(name, question)
        if known is not None:
            return known, ModelJudgement(name, None, is_cached=True)
        answer, spent = await self._model.answer(messages)
        await self._cache.put_answer(name, question, answer)
        return answer, spent

    async def forget(self, messages: list[dict[str, str]]) -> None:
        """See AskModel."""
        await self._cache.drop_answer(self._model.name, _digest(messages))


def _digest(messages: list[dict[str, str]]) -> str:
    return blake2b(json.dumps(messages).encode(), digest_size=16).hexdigest()
