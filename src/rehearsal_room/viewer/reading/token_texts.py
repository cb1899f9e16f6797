"""The texts of logged token ids, where the model's tokenizer is still on this machine."""

from collections.abc import Callable, Sequence
from importlib import import_module
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
                tokenizers = import_module("rehearsal_room.harness.tokenization.chat_tokenizer")
                decode: TextOf = tokenizers.ChatTokenizer.open(folder).text_of
            except (ModuleNotFoundError, HarnessError):
                return None
            return decode
    return None
