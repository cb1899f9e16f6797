"""The history window that searches the older turns."""

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import Act, AgentCall, Message, Reply, Window
from rehearsal_room.harness.dialects.awm import Awm
from rehearsal_room.harness.dialects.hermes import Hermes
from rehearsal_room.harness.history.retrieval import TurnIndex, text_of, words_of
from rehearsal_room.harness.history.windows import HistoryFold, parse_history
from tests.support.prompts import BRIEFING

HERMES = Hermes()


def window_after(*texts: str, spec: str = "retrieve:1") -> Window:
    """The window after turns with these replies."""
    fold = HistoryFold(parse_history(spec), HERMES, BRIEFING)
    for turn, text in enumerate(texts):
        reply = Reply(text)
        fold.apply(StepTaken(reply, HERMES.read(reply, turn=turn)))
    return fold.window()


def test_the_best_of_the_older_turns_is_recalled() -> None:
    """The turn that shares words with the newest one is shown before the last three, in order."""
    texts = ("red lamps", "customer 17 is Ann", "blue lamps", "a", "b", "mail customer 17")
    window = window_after(*texts)
    assert [message.content for message in window.messages[2:]] == [
        "customer 17 is Ann",
        "a",
        "b",
        "mail customer 17",
    ]
    assert (window.first_turn, window.recalled) == (3, (1,))


def test_the_query_contains_the_task() -> None:
    """A turn that shares words only with the task is recalled too."""
    window = window_after("red lamps", "order 7 is open", "blue lamps", "a", "b", "c")
    assert BRIEFING.instruction == "Void order 7."
    assert window.recalled == (1,)


def test_recalled_turns_next_to_the_last_ones() -> None:
    """`first_turn` is the turn from which on no turn is missing, recalled ones included."""
    window = window_after("x", "order", "y", "order", "a", "b", "c", spec="retrieve:2")
    assert (window.first_turn, window.recalled) == (3, (1,))


def test_recalled_turns_are_numbered_as_steps() -> None:
    """The numbers of recalled turns count a pinned turn before them, as steps are counted."""
    awm = Awm()
    fold = HistoryFold(parse_history("retrieve:1"), awm, BRIEFING)
    texts = ("red lamps", "order 7", "blue lamps", "a", "b", "c")
    replies = [awm.write(awm.opening_calls(), "", turn=0), *map(Reply, texts)]
    for turn, reply in enumerate(replies):
        decision = awm.read(reply, turn=turn)
        results = (ToolResult("tools"),) if isinstance(decision, Act) else ()
        fold.apply(StepTaken(reply, decision, results))
    window = fold.window()
    assert (window.first_turn, window.recalled) == (4, (2,))
    assert [message.content for message in window.messages[4:]] == ["order 7", "a", "b", "c"]


def test_without_a_match_the_newest_are_shown() -> None:
    """Where no older turn matches, the newest of the older turns are shown."""
    window = window_after("x", "y", "z", "a", "b", "c", spec="retrieve:2")
    assert (window.first_turn, window.recalled) == (1, ())


def test_ranking() -> None:
    """Rare words weigh more than frequent ones, and short texts more than long ones; of equal
    texts the later is better; texts without any of the words are left out."""
    index = TurnIndex()
    texts = ["cat", "cat cat lamp lamp", "dog", "cat", "cat bird"]
    assert index.rank(texts, ["dog", "cat"]) == [2, 3, 0, 1, 4]
    assert index.rank(["lamp", "x"], ["dog"]) == []
    assert index.rank(["lamp", "x"], []) == []
    assert index.rank([], ["dog"]) == []


def test_a_ranking_does_not_depend_on_earlier_ones() -> None:
    """An index that ranked other texts before ranks as a new one does."""
    used = TurnIndex()
    for _ in range(3):
        used.rank(["cat dog", "dog", "dog"] * 5, ["dog"])
    texts = ["cat", "dog cat", "dog dog bird", "bird"]
    assert used.rank(texts, ["dog", "bird"]) == TurnIndex().rank(texts, ["dog", "bird"])


def test_words_of_a_turn() -> None:
    """The words of a turn include those of its calls; characters and operators that have a meaning
    in FTS5 queries do no harm."""
    call = AgentCall("get_order", {"order_id": 7, "note": 'Über" OR *'}, "c0-0")
    turn = (Message("assistant", "I look.", (call,)), Message("tool", "a\x00b\ud800", call_id="c"))
    assert words_of(text_of(turn)) == [
        *("i", "look", "get", "order", "order", "id", "7", "note", "über", "or", "a", "b"),
    ]
    assert TurnIndex().rank(["über und or"], ["or", "near", "not"]) == [0]
