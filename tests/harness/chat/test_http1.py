"""Reading HTTP/1.1 responses from bytes."""

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.harness.chat.http1 import MAX_HEAD, BadResponse, ModelResponse, ResponseReader

BODIES = st.binary(max_size=200)
SPLITS = st.lists(st.integers(0, 400), max_size=8)


def pieces(data: bytes, splits: Iterable[int]) -> list[bytes]:
    """The bytes, cut at these offsets."""
    offsets = [0, *sorted(split for split in splits if split < len(data)), len(data)]
    return [data[start:end] for start, end in pairwise(offsets)]


def read(data: bytes, splits: Iterable[int] = ()) -> ModelResponse | None:
    """The response in bytes that arrive in pieces; None: it is not complete."""
    reader = ResponseReader()
    left = len(data)
    for piece in pieces(data, splits):
        left -= len(piece)
        if (response := reader.feed(piece)) is not None:
            assert left == 0, "the response was complete before its last byte"
            return response
    return reader.end()


def chunked(body: bytes, size: int) -> bytes:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%X;x=1\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


@given(BODIES, SPLITS)
def test_a_body_by_length(body: bytes, splits: list[int]) -> None:
    """However the bytes are cut, the same response is complete at its last byte."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nX-A:  b \r\n\r\n" % len(body)
    headers = {"content-length": str(len(body)), "x-a": "b"}
    assert read(head + body, splits) == ModelResponse(200, headers, body, True)


@given(BODIES, st.integers(1, 60), SPLITS, st.sampled_from([b"", b"A: b\r\n", b"A: b\r\nC: d\r\n"]))
def test_a_body_in_chunks(body: bytes, size: int, splits: list[int], trailers: bytes) -> None:
    """Chunks of any size give the body; extensions and trailers are dropped."""
    head = b"HTTP/1.1 503 Not  now\r\nTransfer-Encoding: Chunked\r\n\r\n"
    data = head + chunked(body, size) + b"0\r\n" + trailers + b"\r\n"
    assert read(data, splits) == ModelResponse(503, {"transfer-encoding": "Chunked"}, body, True)


@given(BODIES, SPLITS)
def test_a_body_up_to_the_end(body: bytes, splits: list[int]) -> None:
    """Without a length, the end of the connection ends the body."""
    reader = ResponseReader()
    for piece in pieces(b"HTTP/1.0 200 OK\r\n\r\n" + body, splits):
        assert reader.feed(piece) is None
    assert reader.end() == ModelResponse(200, {}, body, False)


@given(st.integers(1, 5), SPLITS)
def test_interim_responses_are_skipped(number: int, splits: list[int]) -> None:
    """100 Continue and other interim responses are not the response."""
    data = b"HTTP/1.1 100 Continue\r\nA: b\r\n\r\n" * number + b"HTTP/1.1 204 No\r\n\r\n"
    assert read(data, splits) == ModelResponse(204, {}, b"", True)


def test_one_response_after_the_other() -> None:
    """A reader is ready for the next response once one is complete."""
    reader = ResponseReader()
    for body in (b"one", b"", b"three"):
        data = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        assert reader.is_between_responses
        assert reader.feed(data[:-1]) is None
        assert not reader.is_between_responses
        response = reader.feed(data[-1:])
        assert response is not None and response.body == body
        chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(body, 2)
        response = reader.feed(chunks + b"0\r\n\r\n")
        assert response is not None and response.body == body


@pytest.mark.parametrize(
    ("head", "is_kept"),
    [
        (b"HTTP/1.1 200 OK\r\n", True),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n", False),
        (b"HTTP/1.1 200 OK\r\nConnection: Keep-Alive\r\n", True),
        (b"HTTP/1.0 200 OK\r\n", False),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n", True),
        (b"HTTP/1.1 200\r\n", True),
    ],
)
def test_keeping_the_connection(head: bytes, is_kept: bool) -> None:
    """Version and Connection header decide whether another request may follow."""
    response = read(head + b"Content-Length: 2\r\n\r\nhi")
    assert response is not None and response.keep_alive == is_kept


@pytest.mark.parametrize("surplus", [b"!", b"HTT", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"])
def test_surplus_bytes_end_the_connection(surplus: bytes) -> None:
    """Bytes after a response could be taken for the next one, so the connection is not used
    again."""
    response = read(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi" + surplus)
    assert response is not None
    assert (response.body, response.keep_alive) == (b"hi", False)


def test_headers_of_one_name_are_joined() -> None:
    """The values of several headers with one name become one list."""
    response = read(b"HTTP/1.1 200 OK\r\nVia: a\r\nvia: b\r\nContent-Length: 1\r\n\r\nx")
    assert response is not None
    assert response.headers == {"via": "a, b", "content-length": "1"}


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"220 smtp ready\r\n\r\n", "the answer is not HTTP/1.1: "),
        (b"220 smtp ready\r\n\r\n", "(in b'220 smtp ready"),
        (b"HTTP/2 200\r\n\r\n", "the answer is not HTTP/1.1: "),
        (b"HTTP/2.0 200 OK\r\n\r\n", "HTTP/2.0 with status 200 (expected HTTP/1.1, 100 to 599)"),
        (b"HTTP/1.1 600 Odd\r\n\r\n", "HTTP/1.1 with status 600 (expected"),
        (
            b"HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
            "it upgrades",
        ),
        (b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "not HTTP/1.1: Invalid header token"),
        (b"HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n", "not HTTP/1.1: Unexpected whitespace"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "character in Content-Length"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\n", "character in Content-Length"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", "Duplicate"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", "the answer is longer than"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\n", "content-encoding 'br'"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "'gzip, chunked'"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n",
            "in chunk size",
        ),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", "after chunk data"),
        (b"HTTP/1.1 200 OK\r\nA: " + b"x" * MAX_HEAD, "the head is longer"),
    ],
)
def test_other_bytes_are_refused(data: bytes, fault: str) -> None:
    """Bytes that are not an HTTP/1.1 response are refused with the name of the fault."""
    with pytest.raises(BadResponse) as refused:
        read(data)
    assert fault in str(refused.value)


@given(st.binary(max_size=300), SPLITS)
def test_any_bytes_can_be_read(data: bytes, splits: list[int]) -> None:
    """Whatever bytes follow a head of a chunked body, the reader returns a response or refuses."""
    reader = ResponseReader()
    reader.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    try:
        for piece in pieces(data, splits):
            if reader.feed(piece) is not None:
                return
        assert reader.end() is None
    except BadResponse:
        pass
