"""The worker itself: its memory, its functions, its other worlds. See tests/hostile/gather.py."""


def load_a_library():
    """ended: the code tried to load a library with ctypes"""
    import ctypes

    return ctypes.CDLL(None).getpid()


def look_into_memory():
    """ended: the code tried to read memory with ctypes"""
    import ctypes

    return ctypes.string_at(id(None), 16).hex()


def point_into_memory():
    """ended: the code tried to read memory with ctypes"""
    import ctypes

    return ctypes.c_long.from_address(id(None)).value


def look_through_all_objects():
    """ended: the code tried to list all objects of the process"""
    import gc

    return len(gc.get_objects())


def replace_the_overlay():
    """ended: the code changed a name in rehearsal_room.envpool.store.overlay"""
    from rehearsal_room.envpool.store.overlay import OverlayFile

    OverlayFile.xRead = lambda self, amount, offset: b"\0" * amount
    return "replaced"


def replace_the_tracker():
    """ended: the code changed a name in rehearsal_room.envpool.store.tracking"""
    from rehearsal_room.envpool.store.tracking import Tracker

    Tracker.net = lambda self, total: ((), total)
    return "replaced"


def replace_code_inside_a_function():
    """ended: the code tried to replace the code of a function"""
    import rehearsal_room.envpool.store.digest

    rehearsal_room.envpool.store.digest.hex_digest.__code__ = (lambda total: "0" * 32).__code__
    return "replaced"


def replace_a_builtin():
    """ended: the code changed a name in builtins or ended: longer than"""
    import builtins

    builtins.len = lambda _: 0
    return "replaced"


def replace_the_audit_hook():
    """ended: the code"""
    import sys

    for name, module in list(sys.modules.items()):
        if name == "rehearsal_room.envpool.workers.audit_hook":
            module.AuditHook.is_disabled = lambda self: False
    return "replaced"


def disable_the_audit_hook():
    """ended: the code"""
    import builtins
    import contextlib
    import os
    import posixpath

    names = []
    try:
        open("/etc/hostname").close()
    except PermissionError as refusal:
        trace = refusal.__traceback__
        while trace is not None:
            names.append(trace.tb_frame)
            trace = trace.tb_next
    for frame in names[1:]:  # the hook's own
        frame.f_globals["__builtins__"] = {}
        for value in list(frame.f_locals.values()):
            for change in ("clear", "update"):
                with contextlib.suppress(Exception):
                    getattr(value, change)()
            for name in ("__defaults__", "__kwdefaults__", "checks", "__code__"):
                with contextlib.suppress(Exception):
                    setattr(value, name, None)
            for cell in getattr(value, "__closure__", None) or ():
                cell.cell_contents = None
    posixpath.realpath = os.readlink = os.fspath = lambda *_: "/dev/null"
    os.path.realpath = posixpath.realpath
    builtins.isinstance = lambda *_: True
    with contextlib.suppress(PermissionError):
        return open("/etc/hostname").read()
    return "refused"


def remove_the_record_of_a_refusal():
    """ended: the code did something forbidden and removed its description"""
    try:
        open("/etc/passwd").close()
    except PermissionError as refusal:
        trace = refusal.__traceback__
        while trace is not None:
            for value in trace.tb_frame.f_locals.values():
                if type(value) is list:
                    value.clear()
            trace = trace.tb_next
    return "nothing happened"


def load_a_library_of_its_own():
    """ended: the code tried to load the library"""
    import importlib.machinery
    import importlib.util
    import os

    with open("mine.so", "wb") as file:
        file.write(b"\x7fELF")
    path = os.path.abspath("mine.so")
    loader = importlib.machinery.ExtensionFileLoader("mine", path)
    importlib.util.module_from_spec(importlib.util.spec_from_loader("mine", loader))


def listen_to_audit_events():
    """ended: the code tried to add an audit hook"""
    import sys

    sys.addaudithook(print)


def trace_other_calls():
    """ended: the code tried to trace the worker"""
    import sys

    sys.settrace(lambda *_: None)


def raise_an_error_without_text():
    """failed or ended"""

    class Hostile(Exception):
        def __str__(self):
            raise SystemExit("in __str__")

        __repr__ = __str__

    raise Hostile


def raise_an_error_with_endless_text():
    """ended: longer than or failed"""

    class Hostile(Exception):
        def __str__(self):
            while True:
                pass

        __repr__ = __str__

    raise Hostile


def raise_beyond_exceptions():
    """failed or ended"""

    class Hostile(BaseException):
        pass

    raise Hostile("not an Exception")


def return_an_object():
    """failed"""
    return {"self": object()}


def return_itself():
    """failed"""
    nested = []
    nested.append(nested)
    return nested


def return_half_a_character():
    """failed or answered"""
    return "\ud800"
