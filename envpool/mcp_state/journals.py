"""SQLite's two journals, read without SQLite: the write-ahead log and the rollback journal.

Opening a server's database with SQLite takes locks, and may write: it makes the index of the log,
rolls a hot journal back, and moves the log into the file at its end. Reading bytes does none of it.

Source: sqlite.org/fileformat2.html, sections 3 and 4.
"""

import os
import struct

import msgspec

WAL_HEADER = 32  # bytes
_FRAME_HEADER = 24
_WAL_MAGIC = (0x377F0682, 0x377F0683)  # the second: checksums of big-endian words
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
_JOURNAL_HEADER = 28
_ALL = 0xFFFFFFFF  # as a number of records: as many as the journal has


class Frames(msgspec.Struct, frozen=True):
    """The committed frames of a write-ahead log from one place on."""

    pages: dict[int, bytes]  # the last version of each
    num_pages: int  # of the database after the last commit; 0: there is no commit
    end: int  # the offset behind the last committed frame
    checksum: bytes  # as that frame's header has it


def wal_page_size(header: bytes) -> int | None:
    """The page size of a write-ahead log; None: it is empty or no log."""
    if len(header) < WAL_HEADER or int.from_bytes(header[:4], "big") not in _WAL_MAGIC:
        return None
    return int.from_bytes(header[8:12], "big")


def frames_after(fd: int, header: bytes, end: int, checksum: bytes) -> Frames:
    """The frames that were committed after the place `end`, whose checksum is `checksum`.

    A frame counts where its salt is the log's, and up to the last commit whose checksum is right: a
    frame that SQLite gave up (a rolled-back transaction) is never a commit, and is overwritten
    before the next commit.
    """
    page_size = int.from_bytes(header[8:12], "big")
    salt, length = header[16:24], _FRAME_HEADER + page_size
    found: list[bytes] = []
    while True:
        frame = os.pread(fd, length, end + len(found) * length)
        if len(frame) < length or frame[8:16] != salt:
            break
        found.append(frame)
    while found and not _is_commit(found, header, checksum):
        found.pop()
    pages = {int.from_bytes(frame[:4], "big"): frame[_FRAME_HEADER:] for frame in found}
    if not found:
        return Frames({}, 0, end, checksum)
    num_pages = int.from_bytes(found[-1][4:8], "big")
    return Frames(pages, num_pages, end + len(found) * length, found[-1][16:24])


def _is_commit(frames: list[bytes], header: bytes, checksum: bytes) -> bool:
    """Whether the last frame is a commit, and complete."""
    last = frames[-1]
    if last[4:8] == b"\0\0\0\0":
        return False
    first, second = struct.unpack(">II", frames[-2][16:24] if len(frames) > 1 else checksum)
    order = ">" if header[3] & 1 else "<"
    data = last[:8] + last[_FRAME_HEADER:]
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for one, other in zip(words[::2], words[1::2], strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return last[16:24] == struct.pack(">II", first, second)


def is_hot(header: bytes) -> bool:
    """Whether a rollback journal with this beginning belongs to a transaction that has not ended:
    a commit deletes the journal, empties it or overwrites its header."""
    return len(header) >= _JOURNAL_HEADER and header[:8] == _JOURNAL_MAGIC


def originals(journal: bytes, page_size: int) -> tuple[dict[int, bytes], int]:
    """The pages that a rollback journal would restore, and the number of pages that the database
    had."""
    pages: dict[int, bytes] = {}
    num_pages = int.from_bytes(journal[16:20], "big")
    start = 0
    while is_hot(journal[start : start + _JOURNAL_HEADER]):
        count, nonce, _, sector = struct.unpack_from(">IIII", journal, start + 8)
        at = start + sector
        while count:
            record = journal[at : at + page_size + 8]
            if len(record) < page_size + 8 or not _is_whole(record, nonce, page_size):
                return pages, num_pages
            pages.setdefault(int.from_bytes(record[:4], "big"), record[4:-4])
            at += page_size + 8
            count -= count != _ALL
        start = -(-at // sector) * sector if sector else len(journal)
    return pages, num_pages


def _is_whole(record: bytes, nonce: int, page_size: int) -> bool:
    total = nonce + sum(record[4 + at] for at in range(page_size - 200, 0, -200))
    return record[-4:] == (total & 0xFFFFFFFF).to_bytes(4, "big")
