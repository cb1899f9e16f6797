"""The pages of an SQLite database at one moment, in chunks that images share where they are equal.

A comparison reads the file into a small buffer and compares it with the image: 10 MB in about
1.3 ms. A mapped file would take half of that, but a server that truncates its file would end this
process (SIGBUS).
"""

import os
from collections.abc import Mapping

import msgspec

_CHUNK = 16 * 1024  # bytes, or a page where that is more
_AT_ONCE = 256 * 1024  # bytes that one system call reads; with their copy they fit the L2 cache


class Image(msgspec.Struct, frozen=True):
    """The committed pages of a database; the first page has the number 1."""

    chunks: tuple[bytes, ...] = ()
    page_size: int = 4096
    num_pages: int = 0

    def page(self, number: int) -> bytes:
        """One page. Raises IndexError where there is none."""
        if not 0 < number <= self.num_pages:
            raise IndexError(f"page {number}")
        start = (number - 1) * self.page_size
        within = start % self.chunk
        return self.chunks[start // self.chunk][within : within + self.page_size]

    @property
    def chunk(self) -> int:
        """The bytes of a chunk; the last one may be shorter."""
        return max(_CHUNK, self.page_size)

    @property
    def usable(self) -> int:
        """The bytes of a page that SQLite uses."""
        return self.page_size - self.chunks[0][20]

    def whole(self) -> bytes:
        """The database as a file's content."""
        return b"".join(self.chunks)


def patched(old: Image, pages: Mapping[int, bytes], num_pages: int) -> Image:
    """An image with other pages, and with `num_pages` pages."""
    size, page_size, chunk = num_pages * old.page_size, old.page_size, old.chunk
    count = -(-size // chunk)
    chunks = [*old.chunks[:count], *[b""] * (count - len(old.chunks))]
    copies: dict[int, bytearray] = {}
    for index in {min(len(old.chunks), count) - 1, *range(len(old.chunks) - 1, count), count - 1}:
        if index >= 0:  # the chunks whose length may change
            length = min(chunk, size - index * chunk)
            if len(chunks[index]) != length:
                copies[index] = bytearray(chunks[index][:length].ljust(length, b"\0"))
    for number, page in pages.items():
        start = (number - 1) * page_size
        if start < size:
            index, within = divmod(start, chunk)
            if index not in copies:
                copies[index] = bytearray(chunks[index])
            copies[index][within : within + page_size] = page
    for index, copy in copies.items():
        chunks[index] = bytes(copy)
    return Image(tuple(chunks), page_size, num_pages)


def compared(
    fd: int, old: Image, pages: Mapping[int, bytes], page_size: int, num_pages: int
) -> tuple[Image, set[int]]:
    """The image of a file with `pages` in place of its own, and the pages in which it differs from
    `old`, an image with pages of the same size. What the file lacks reads as zeros."""
    size, span = num_pages * page_size, max(_CHUNK, page_size)
    replaced: dict[int, list[tuple[int, bytes]]] = {}
    for number, page in pages.items():
        index, within = divmod((number - 1) * page_size, span)
        replaced.setdefault(index, []).append((within, page))
    buffers = [bytearray(span) for _ in range(_AT_ONCE // span)]
    chunks: list[bytes] = []
    changed: set[int] = set(range(num_pages + 1, old.num_pages + 1))
    for start in range(0, size, _AT_ONCE):
        got = os.preadv(fd, buffers, start)
        first = start // span
        if got == _AT_ONCE <= size - start and replaced.keys().isdisjoint(
            range(first, first + len(buffers))
        ):
            known = old.chunks[first : first + len(buffers)]
            if buffers == list(known):
                chunks += known
                continue
        for buffer in buffers:
            index = len(chunks)
            length = min(span, size - index * span)
            if length <= 0:
                break
            if got < span:
                buffer[max(got, 0) :] = bytes(span - max(got, 0))
            got -= span
            for within, page in replaced.get(index, ()):
                buffer[within : within + page_size] = page
            before = old.chunks[index] if index < len(old.chunks) else b""
            if length == span and buffer == before:
                chunks.append(before)
                continue
            chunk = bytes(buffer[:length])
            number = index * span // page_size + 1
            for at in range(0, length, page_size):
                if chunk[at : at + page_size] != before[at : at + page_size]:
                    changed.add(number + at // page_size)
            chunks.append(before if chunk == before else chunk)
    return Image(tuple(chunks), page_size, num_pages), changed
