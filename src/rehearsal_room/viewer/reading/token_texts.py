"""The texts of logged token ids, where the model's tokenizer is still on this machine."""

from collections.abc import Callable, Sequence
from pathlib import Path

from rehearsal_room.harness.core.errors import HarnessError
from rehearsal_room.harness.settings.run import Settings

TextOf = Callable[[Sequence[int]], str]


def token_reader(settings: Settings, versions: Sequence[Path] = ()) -> TextOf | None:
    """What reads single ids of a run's model; None: the tokenizer is not here, or its library is
    not installed. `versions` are folders of weights that a training run has published."""
    named = settings.policy.tokens or settings.model.name
    for folder in (*([Path(named)] if named else []), *versions):
        if (folder / "tokenizer.json").is_file():
            try:
                from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer

                return ChatTokenizer.open(folder).text_of
            except (ModuleNotFoundError, HarnessError):
                return None
    return None
