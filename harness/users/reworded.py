"""A user whose lines come from an automaton and whose words from a model.

The automaton decides what is said and when; the model only puts it into other words. A wording that
adds or leaves out a name, a number or a condition is not used, nor one that a failing model did not
give: the user then says the line as it is. A run has one wording for each text, so the episodes of
a group hear the same.
"""

from hashlib import blake2b

from rehearsal_room.harness.core.errors import PolicyError
from rehearsal_room.harness.core.messages import Message, UserTurn, Window
from rehearsal_room.harness.policies.openai import OpenAIPolicy
from rehearsal_room.harness.users.automaton import AutomatonUser
from rehearsal_room.harness.users.base import UserWorld
from rehearsal_room.scenarios.core.dialogue import UserAutomaton
from rehearsal_room.scenarios.generate.tasks.rewordings import rewording_fault

_PROMPT = (
    "You play a person who talks with an assistant. Say the text that you are given in your own "
    "words, as people write in a chat. Keep every name, number, date and condition exactly as it "
    "is. Add nothing and leave nothing out. Answer with the new wording alone."
)


class Wordings:
    """The wordings of one run, made by a model, one for each text."""

    def __init__(self, model: OpenAIPolicy) -> None:
        self._model = model
        self._known: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<Wordings of {self._model.name} [{len(self._known)} texts]>"

    async def of(self, text: str) -> str:
        """The wording of a text; the text itself where the model gives none that is right.
        Raises ModelOutageError."""
        if text not in self._known:
            wording = await self._asked(text)
            self._known.setdefault(text, text if rewording_fault(text, wording) else wording)
        return self._known[text]

    async def _asked(self, text: str) -> str:
        seed = int.from_bytes(blake2b(text.encode(), digest_size=4).digest()) >> 1
        window = Window((Message("system", _PROMPT), Message("user", text)))
        try:
            return (await self._model.reply_to(window, seed)).text.strip()
        except PolicyError:
            return ""


class RewordedUser:
    """The user of one episode."""

    hidden: tuple[str, ...] = ()

    def __init__(self, user: UserAutomaton, wordings: Wordings) -> None:
        self._automaton = AutomatonUser(user)
        self._wordings = wordings

    def keep(self, text: str, turn: UserTurn) -> None:
        """Go on after a turn that is logged already, in whatever words."""
        self._automaton.keep(text, turn)

    async def reply(self, text: str, world: UserWorld) -> UserTurn:
        """Answer as the automaton does, in the model's words."""
        turn = await self._automaton.reply(text, world)
        if turn.ended:
            return turn
        return UserTurn(await self._wordings.of(turn.text))
