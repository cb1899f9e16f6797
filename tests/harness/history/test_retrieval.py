from envpool.core.types import ToolResult
from harness.core.events import StepTaken
from harness.core.messages import Act, AgentCall, Message, Reply, Window
from harness.dialects.awm import Awm
from harness.dialects.hermes import Hermes
from harness.history.retrieval import TurnIndex, text_of, words_of
from harness.history.windows import HistoryFold, parse_history
from tests.support.prompts import BRIEFING

HERMES = Hermes()


def shown(*said: str, spec: str = "retrieve:1") -> Window:
    """The window after turns in which these texts were said."""
    fold = HistoryFold(parse_history(spec), HERMES, BRIEFING)
    for turn, text in enumerate(said):
        reply = Reply(text)
        fold.apply(StepTaken(reply, HERMES.read(reply, turn=turn)))
    return fold.window()


def test_the_best_of_the_older_turns_is_recalled() -> None:
    """The turn that shares words with the newest one stands before the last three, in order."""
    said = ("red lamps", "customer 17 is Ann", "blue lamps", "a", "b", "mail customer 17")
    window = shown(*said)
    assert [message.content for message in window.messages[2:]] == [
        "customer 17 is Ann",
        "a",
        "b",
        "mail customer 17",
    ]
    assert (window.first_turn, window.recalled) == (3, (1,))


def test_the_task_is_searched_for() -> None:
    """A turn that shares words with the task alone is recalled, too."""
    window = shown("red lamps", "order 7 is open", "blue lamps", "a", "b", "c")
    assert BRIEFING.instruction == "Void order 7."
    assert window.recalled == (1,)


def test_recalled_turns_next_to_the_last_ones_belong_to_them() -> None:
    """`first_turn` is the turn from which on nothing is missing."""
    window = shown("x", "order", "y", "order", "a", "b", "c", spec="retrieve:2")
    assert (window.first_turn, window.recalled) == (3, (1,))


def test_recalled_turns_are_counted_as_steps_are() -> None:
    """Behind a pinned turn, which has no number of its own in the window, turns keep theirs."""
    awm = Awm()
    fold = HistoryFold(parse_history("retrieve:1"), awm, BRIEFING)
    said = ("red lamps", "order 7", "blue lamps", "a", "b", "c")
    replies = [awm.write(awm.opening_calls(), "", turn=0), *map(Reply, said)]
    for turn, reply in enumerate(replies):
        decision = awm.read(reply, turn=turn)
        results = (ToolResult("tools"),) if isinstance(decision, Act) else ()
        fold.apply(StepTaken(reply, decision, results))
    window = fold.window()
    assert (window.first_turn, window.recalled) == (4, (2,))
    assert [message.content for message in window.messages[4:]] == ["order 7", "a", "b", "c"]


def test_where_nothing_fits_the_newest_are_taken() -> None:
    """Without a word in common, the newest of the older turns are shown."""
    window = shown("x", "y", "z", "a", "b", "c", spec="retrieve:2")
    assert (window.first_turn, window.recalled) == (1, ())


def test_ranking() -> None:
    """Rare words weigh more than frequent ones, and short texts more than long ones; of equals
    the later is better; texts without any of the words are left out."""
    index = TurnIndex()
    texts = ["cat", "cat cat lamp lamp", "dog", "cat", "cat bird"]
    assert index.ranking(texts, ["dog", "cat"]) == [2, 3, 0, 1, 4]
    assert index.ranking(["lamp", "x"], ["dog"]) == []
    assert index.ranking(["lamp", "x"], []) == []
    assert index.ranking([], ["dog"]) == []


def test_a_ranking_leaves_nothing_behind() -> None:
    """An index that has ranked other texts ranks as a new one does."""
    used = TurnIndex()
    for _ in range(3):
        used.ranking(["cat dog", "dog", "dog"] * 5, ["dog"])
    texts = ["cat", "dog cat", "dog dog bird", "bird"]
    assert used.ranking(texts, ["dog", "bird"]) == TurnIndex().ranking(texts, ["dog", "bird"])


def test_words_of_a_turn() -> None:
    """Calls are searched as what is said is; what the index would obey is no word."""
    call = AgentCall("get_order", {"order_id": 7, "note": 'Über" OR *'}, "c0-0")
    turn = (Message("assistant", "I look.", (call,)), Message("tool", "a\x00b\ud800", call_id="c"))
    assert words_of(text_of(turn)) == [
        *("i", "look", "get", "order", "order", "id", "7", "note", "über", "or", "a", "b"),
    ]
    assert TurnIndex().ranking(["über und or"], ["or", "near", "not"]) == [0]
