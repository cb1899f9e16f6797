"""Time and random numbers of hosted code are the world's, not the machine's."""

import datetime as dt
import os
import random
import secrets
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from rehearsal_room.envpool.hosting.determinism.clock import (
    MAX_THREAD_SLEEP,
    STEP,
    frozen_clock,
    random_bytes,
    seed_random,
    sql_random,
)

CLOCK = "2026-03-14T09:30:00Z"
START = dt.datetime(2026, 3, 14, 9, 30)  # noqa: DTZ001 - naive, as in hosted code


def _wall_clocks() -> list[dt.datetime]:
    return [
        dt.datetime.now(),  # noqa: DTZ005 - as in hosted code
        dt.datetime.utcnow(),  # noqa: DTZ003
        dt.datetime.today(),  # noqa: DTZ002
        dt.datetime.now(dt.UTC).replace(tzinfo=None),
        dt.datetime.fromtimestamp(time.time(), dt.UTC).replace(tzinfo=None),
        dt.datetime.fromtimestamp(time.time_ns() / 1e9, dt.UTC).replace(tzinfo=None),
        dt.datetime.fromtimestamp(time.clock_gettime(time.CLOCK_REALTIME), dt.UTC).replace(
            tzinfo=None
        ),
    ]


def test_every_clock_has_the_scenarios_time() -> None:
    """Every clock that code can read has the scenario's time, in UTC."""
    with frozen_clock(CLOCK):
        assert _wall_clocks() == [START] * 7
        assert dt.date.today() == START.date()  # noqa: DTZ011
        assert [time.localtime()[:6], time.gmtime()[:6]] == [(2026, 3, 14, 9, 30, 0)] * 2
        assert time.ctime() == time.asctime() == "Sat Mar 14 09:30:00 2026"
        assert time.strftime("%H:%M %Z") == "09:30 UTC"


def test_the_real_time_is_restored() -> None:
    """Outside of the block every function has its usual result."""
    before = time.time_ns()
    with frozen_clock(CLOCK):
        seed_random("package", 0)
    assert before <= time.time_ns()
    assert abs(time.clock_gettime_ns(time.CLOCK_MONOTONIC) - time.monotonic_ns()) < 10**9
    assert os.urandom(16) != os.urandom(16)
    assert len(time.ctime()) == 24 and time.asctime(time.gmtime(0)) == "Thu Jan  1 00:00:00 1970"


def test_time_moves_from_call_to_call_and_not_within_one() -> None:
    """Each call has its own time, a whole number of steps after the scenario's clock."""
    moments = []
    for num_calls in range(3):
        with frozen_clock(CLOCK, num_calls):
            first, again = _wall_clocks()[0], _wall_clocks()[0]
        assert first == again
        moments.append(first - START)
    step = dt.timedelta(microseconds=STEP // 1_000)
    assert moments == [step, 2 * step, 3 * step]


def test_sleep_only_moves_the_clock() -> None:
    """An hour's sleep takes no time and moves the call's clocks by an hour, not those of the next
    call; arguments that the real `sleep` refuses are refused."""
    with frozen_clock(CLOCK):
        start = time.monotonic()
        time.sleep(3600)
        assert _wall_clocks()[0] == START + dt.timedelta(hours=1)
        assert 3600 <= time.monotonic() - start < 3600.001
        with pytest.raises(ValueError, match="non-negative"):
            time.sleep(-1)
        with pytest.raises(TypeError):
            time.sleep(None)  # type: ignore[arg-type]
    with frozen_clock(CLOCK):
        assert _wall_clocks()[0] == START


@pytest.mark.parametrize(
    "clock",
    [time.time, time.monotonic, time.perf_counter, time.process_time, time.thread_time],
    ids=lambda clock: str(clock.__name__),
)
def test_a_loop_that_waits_for_a_clock_ends(clock: Callable[[], float]) -> None:
    """A busy wait for a clock ends, after the same number of reads in every world."""
    name = clock.__name__
    reads = []
    for _ in range(2):
        with frozen_clock(CLOCK):
            read = getattr(time, name)
            start, num_reads = read(), 0
            while read() < start + 0.05:
                num_reads += 1
        reads.append(num_reads)
    assert reads[0] == reads[1] > 0


def test_a_sleeping_thread_ends() -> None:
    """A thread that would sleep after the call ends at its sleep and does nothing later; its sleep
    within the call takes no time and does not move the call's clock."""
    done: list[str] = []

    def background() -> None:
        time.sleep(MAX_THREAD_SLEEP / 2)
        done.append("napped")
        try:
            time.sleep(MAX_THREAD_SLEEP)
            done.append("woke")
        except SystemExit:  # ignored by threading, but reported by pytest
            done.append("ended")

    with frozen_clock(CLOCK):
        thread = threading.Thread(target=background)
        thread.start()
        thread.join()
        assert _wall_clocks()[0] == START
    assert done == ["napped", "ended"]


def _draws() -> list[Any]:
    return [
        random.random(),
        random.randint(1, 10**9),
        random.gauss(0, 1),
        random.sample(range(1000), 3),
        random.Random().random(),
        random.SystemRandom().random(),
        os.urandom(8),
        os.getrandom(8),
        secrets.token_hex(8),
        secrets.choice(range(10**9)),
        uuid.uuid1(),
        uuid.uuid4(),
        random_bytes(8),
        sql_random(),
    ]


def test_random_numbers_follow_from_package_and_number_of_calls() -> None:
    """Equal package and number of calls give equal draws; a change of either gives others."""

    def draws(digest: str, num_calls: int) -> list[Any]:
        with frozen_clock(CLOCK, num_calls):
            seed_random(digest, num_calls)
            return _draws()

    first = draws("package", 1)
    assert draws("package", 1) == first
    for other in (draws("package", 2), draws("another", 1)):
        assert [one == two for one, two in zip(first, other, strict=True)] == [False] * len(first)


def test_no_draw_repeats_within_a_call() -> None:
    """Two draws of a call differ, and `seed()` without a value uses the call's random stream."""
    with frozen_clock(CLOCK):
        seed_random("package", 0)
        first, second = _draws(), _draws()
        random.seed()
        seeds = [random.random()]
        seed_random("package", 0)
        _draws(), _draws()
        random.seed()
        seeds.append(random.random())
    assert [one == two for one, two in zip(first, second, strict=True)] == [False] * len(first)
    assert seeds[0] == seeds[1]


def test_the_codes_own_seeds_have_their_usual_effect() -> None:
    """Code that seeds a generator gets the numbers that it would get anywhere."""
    expected = random.Random(42).random()
    with frozen_clock(CLOCK):
        random.seed(42)
        assert [random.random(), random.Random(42).random()] == [expected] * 2


def test_uuids_are_well_formed() -> None:
    """Generated ids have their versions, the world's time, and no address of the machine."""
    with frozen_clock(CLOCK):
        seed_random("package", 0)
        by_time, by_chance = uuid.uuid1(), uuid.uuid4()
    assert (by_time.version, by_time.node, by_chance.version) == (1, 0x020000000001, 4)
    since_1582 = dt.timedelta(microseconds=by_time.time // 10)
    assert dt.datetime(1582, 10, 15) + since_1582 == START  # noqa: DTZ001
    assert by_chance.variant == uuid.RFC_4122


def test_wrong_sizes_are_refused() -> None:
    """A negative number of random bytes is an error, as it is of the real function."""
    with frozen_clock(CLOCK), pytest.raises(ValueError, match="negative"):
        os.urandom(-1)
