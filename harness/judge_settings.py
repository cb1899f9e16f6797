"""Who judges, and how: the settings of a judge.

A run has them as `judge` and `judge_*` in run.toml; `rehearse judge` and `rehearse study` take them
as flags and leave them in the run's judge.toml, so that unfinished work goes on as it began.
"""

from typing import Literal

import msgspec

JudgeMode = Literal["code", "llm", "hybrid"]
Vote = Literal["majority", "unanimous"]


class JudgeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One judge. All but the mode is for the modes that ask models."""

    mode: JudgeMode = "code"
    models: tuple[str, ...] = ()  # who is asked, each as MODEL or MODEL@URL
    base_url: str = ""  # of models without a URL of their own; empty: OPENAI_BASE_URL, else OpenAI
    vote: Vote = "majority"  # how several models come to one label
    ask: Literal["always", "unproven"] = "always"  # unproven: no model where code has proved it
    rubric: str = ""  # a file; empty: ours
    prices: str = ""  # a file of prices; empty: cost is not known
    budget: float | None = None  # USD that may be spent; None: no limit
    concurrency: int = 64  # verdicts that are waited for at once
    backlog: int = 4096  # verdicts that may wait for their turn before the episodes do
    evidence_tokens: int = 12_000  # of one question at most, estimated
    max_tokens: int = 2_048  # of one answer
    temperature: float | None = 0.0  # None: the server's default
    timeout: float = 120.0  # seconds for one request
    attempts: int = 5  # requests for one opinion: refused ones, lost ones, ones nobody can read
    seed: int = 0
    cache: str = ""  # the file of verdicts; empty: verdicts.sqlite in the run's folder
