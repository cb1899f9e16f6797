"""The rubric: the default, a user's own, and what makes a version."""

import re
from pathlib import Path

import msgspec
import pytest

import rehearsal_room.judge.llm.rubric
from rehearsal_room.judge.core.errors import JudgeError
from rehearsal_room.judge.llm.rubric import DEFAULT, PRIORITY, Rubric, read_rubric, rubric_text


def edited(folder: Path, pattern: str, new: str) -> Path:
    """A copy of the default rubric with the one match of a pattern replaced."""
    text, count = re.subn(pattern, lambda _: new, rubric_text(), flags=re.DOTALL | re.MULTILINE)
    assert count == 1
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_default_rubric_has_what_a_judge_must_know() -> None:
    """The labels are in AWM's order, and each mode's instructions describe only what it sees."""
    rubric = read_rubric()
    for mode, seen, unseen in (
        ("llm", rubric.llm, rubric.hybrid),
        ("hybrid", rubric.hybrid, rubric.llm),
    ):
        text = rubric.instructions("llm" if mode == "llm" else "hybrid")
        positions = [text.index(f"{n}. `{label}`: ") for n, label in enumerate(PRIORITY, 1)]
        assert positions == sorted(positions)
        assert seen.strip() in text
        assert unseen.strip() not in text
        assert text.index("# Labels") < text.index("# Rules") < text.index("# Answer")


def test_a_users_rubric(tmp_path: Path) -> None:
    """A changed copy of the default file is read with its changes."""
    mine = read_rubric(edited(tmp_path, 'name = "awm"', 'name = "mine"'))
    assert mine == msgspec.structs.replace(read_rubric(), name="mine")
    assert re.fullmatch(r"mine-[0-9a-f]{8}", mine.version)
    assert mine.version[-8:] != read_rubric().version[-8:]


def test_comments_do_not_make_a_version(tmp_path: Path) -> None:
    """Text that no model sees is not part of the version, and neither are line endings."""
    path = tmp_path / "same.toml"
    path.write_bytes(b"# mine\r\n" + DEFAULT.read_bytes().replace(b"\n", b"\r\n"))
    assert read_rubric(path).version == read_rubric().version


@pytest.mark.parametrize(
    "field", [field for field in Rubric.__struct_fields__ if field not in ("name", "labels")]
)
def test_every_text_makes_a_version(field: str) -> None:
    """Another word in any part makes another version."""
    rubric = read_rubric()
    other = msgspec.structs.replace(rubric, **{field: getattr(rubric, field) + " Really."})
    assert other.version != rubric.version


@pytest.mark.parametrize("label", PRIORITY)
def test_every_meaning_makes_a_version(label: str) -> None:
    """Another meaning of a label makes another version."""
    rubric = read_rubric()
    labels = msgspec.structs.replace(rubric.labels, **{label: "never"})
    assert msgspec.structs.replace(rubric, labels=labels).version != rubric.version


def test_schema_and_rendering_make_a_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stored judgements on other prompts or another form of answer are not reused."""
    versions = {read_rubric().version}
    monkeypatch.setattr(
        rehearsal_room.judge.llm.rubric, "RENDERING", rehearsal_room.judge.llm.rubric.RENDERING + 1
    )
    versions.add(read_rubric().version)
    monkeypatch.setattr(rehearsal_room.judge.llm.rubric, "SCHEMA", {"type": "object"})
    versions.add(read_rubric().version)
    assert len(versions) == 3


@pytest.mark.parametrize(
    ("pattern", "new", "fault"),
    [
        (r"^name = .*$", "name = [", r"not valid TOML: .*"),
        (r"^name = .*?$\n", "", r"name: required, but missing"),
        (
            r'^name = "awm"',
            'name = "My rubric"',
            r"name: 'My rubric' is not a name such as 'awm'.*",
        ),
        (r'^name = "awm"', "name = 7", r"name: expected a text, found 7"),
        (r'^name = "awm"', 'name = "awm"\nmood = "mild"', r"mood: unknown key.*"),
        (r'^role = """.*?"""', 'role = " "', r"role: expected a text, found an empty one"),
        (
            r'^answer = """.*?"""',
            'answer = """\n"""',
            r"answer: expected a text, found an empty one",
        ),
        (r'^agent_error = """.*?"""', "", r"labels.agent_error: required, but missing"),
        (r'^agent_error = """.*?"""', 'agent_error = ""', r"labels.agent_error: expected a text.*"),
        (r"^\[labels\]", "[label]", r"label: unknown key; did you mean 'labels'\?"),
        (
            r"^completed = ",
            "complete = ",
            r"labels.complete: unknown key; did you mean 'completed'\?",
        ),
    ],
)
def test_a_broken_rubric(tmp_path: Path, pattern: str, new: str, fault: str) -> None:
    """One sentence names the file, the field and what is wrong."""
    path = edited(tmp_path, pattern, new)
    with pytest.raises(JudgeError) as caught:
        read_rubric(path)
    assert re.fullmatch(rf"rubric {re.escape(str(path))}: {fault}", str(caught.value)), caught.value


def test_no_rubric(tmp_path: Path) -> None:
    """A file that is missing, and one that is not text."""
    with pytest.raises(JudgeError, match=r"rubric .*none\.toml: the file is missing"):
        read_rubric(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(JudgeError, match=r"rubric .*bytes\.toml: the file cannot be read as UTF-8"):
        read_rubric(tmp_path / "bytes.toml")
