"""Files outside the scratch folder. See tests/hostile/gather.py for the format."""


def read_passwd():
    """ended: the code tried to open /etc/passwd"""
    return open("/etc/passwd").read()


def read_passwd_and_hide_it():
    """ended: the code tried to open /etc/passwd"""
    import contextlib

    with contextlib.suppress(BaseException):
        open("/etc/passwd").close()
    return "nothing to see"


def read_by_a_link():
    """ended: the code tried to open /etc/shadow"""
    import os

    os.symlink("/etc/shadow", "notes.txt")
    return open("notes.txt").read()


def read_by_a_relative_path():
    """ended: the code tried to open /etc/hostname"""
    return open("../../../../../../../../etc/hostname").read()


def read_by_a_lying_path():
    """ended: the code tried to open /etc/group"""

    class Path(str):
        def startswith(self, *_):
            return True

    return open(Path("/etc/group")).read()


def read_the_parent():
    """ended: the code tried to open /proc/1/environ"""
    return open("/proc/1/environ", "rb").read().decode()


def read_the_memory():
    """ended: the code tried to open /proc/self/mem"""
    import os

    return os.open("/proc/self/mem", os.O_RDONLY)


def read_the_answers_of_a_bundled_world():
    """ended: the code tried to open"""
    import os

    import rehearsal_room.scenarios.api as api

    folder = os.path.join(os.path.dirname(api.__file__), "bundled")
    return open(os.path.join(folder, "shop_support", "verify.py")).read()


def list_the_bundled_worlds():
    """ended: the code tried to list"""
    import os

    import rehearsal_room.scenarios.api as api

    return os.listdir(os.path.join(os.path.dirname(api.__file__), "bundled"))


def read_the_judge():
    """ended: the code tried to open"""
    import os

    import rehearsal_room

    found = []
    for folder in rehearsal_room.__path__:
        for name in ("judge", "learner", "harness"):
            with open(os.path.join(folder, name, "__init__.py")) as file:
                found.append(file.read())  # a list of open files would stay open
    return found


def import_the_judge():
    """failed or ended: the code tried to"""
    import rehearsal_room.judge.code.code_judge as judge

    return judge.__file__


def read_with_sqlite():
    """ended: the code tried to open the database /etc/passwd"""
    import importlib

    real = importlib.import_module("_sqlite3")
    return real.connect("/etc/passwd").execute("SELECT * FROM sqlite_master").fetchall()


def list_homes():
    """ended: the code tried to list /home"""
    import os

    return os.listdir("/home")


def walk_everything():
    """ended: the code tried to list /"""
    import os

    return [names for _, _, names in os.walk("/")]


def write_the_log():
    """ended: the code tried to write /var/tmp/runs/mine/episodes.sqlite"""
    with open("/var/tmp/runs/mine/episodes.sqlite", "ab") as log:
        log.write(b"reward 1.0")


def write_our_code():
    """ended: the code tried to write"""
    import rehearsal_room.envpool.inprocess.world as world

    with open(world.__file__, "a") as file:
        file.write("\nMAX_STEPS = 0\n")


def delete_everything():
    """ended: the code tried to change /usr/lib/os-release"""
    import os

    os.remove("/usr/lib/os-release")


def rename_a_library():
    """ended: the code tried to change"""
    import os

    os.rename(os.__file__, "os.py")


def make_folders_elsewhere():
    """ended: the code tried to change /opt"""
    import os

    os.makedirs("/opt/mine/and/more")


def fill_the_disk():
    """failed"""
    with open("big", "wb") as file:
        while True:
            file.write(b"x" * 2**22)


def read_the_environment():
    """answered: HOME LANG PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONPATH"""
    import os

    return " ".join(sorted(os.environ))
