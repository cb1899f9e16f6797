"""Threads that Python does not know, or no longer counts. See tests/hostile/gather.py."""


def hide_a_thread_from_the_count():
    """ended: thread running that outlived its call"""
    import _thread
    import contextlib
    import gc
    import sys

    lock = _thread.allocate_lock()
    lock.acquire()
    _thread.start_new_thread(lock.acquire, ())
    _thread._count = lambda: 0
    frame, found, seen = sys._getframe(), [], set()
    while frame is not None:
        found += frame.f_locals.values()
        frame = frame.f_back
    while found and len(seen) < 100_000:  # the objects that compare the counts
        each = found.pop()
        if id(each) not in seen and type(each).__module__.startswith("envpool"):
            seen.add(id(each))
            found += gc.get_referents(each)
            for name in ("_num_known", "_num_threads"):
                if type(each).__name__ in ("ToolWorker", "Threads"):
                    with contextlib.suppress(AttributeError):
                        setattr(each, name, 99)
        elif id(each) not in seen and type(each) is dict:
            seen.add(id(each))
            found += each.values()
    return "started"


def start_a_native_thread():
    """ended: thread running that outlived its call"""
    import ctypes
    import glob
    import struct

    from rehearsal_room.envpool.workers import confine

    def symbols(names):
        """The offsets of functions in libc."""
        with open([*glob.glob("/lib/*/libc.so.6"), *glob.glob("/lib64/libc.so.6")][0], "rb") as f:
            data = f.read()
        start, size, count = struct.unpack_from("<Q10xHH", data, 40)
        found = {}
        for index in range(count):
            kind, _, _, offset, length, link = struct.unpack_from(
                "<IQQQQI", data, start + size * index + 4
            )
            if kind != 11:  # the table of dynamic symbols
                continue
            texts = struct.unpack_from("<Q", data, start + size * link + 24)[0]
            for at in range(offset, offset + length, 24):
                name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", data, at)
                text = data[texts + name : data.index(b"\0", texts + name)].decode()
                if text in names and value:
                    found[text] = value
        return found

    # A function that our own code has looked up already tells where the library lies.
    offsets = symbols({"prctl", "pthread_create", "pause"})
    base = ctypes.cast(confine._libc.prctl, ctypes.c_void_p).value - offsets["prctl"]
    pointer = ctypes.c_void_p
    create = ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer, pointer, pointer)(
        base + offsets["pthread_create"]
    )
    thread = (ctypes.c_ulong * 1)()
    return create(ctypes.addressof(thread), None, base + offsets["pause"], None)
