"""Files that the user names for results, for each command that has such a flag."""

from pathlib import Path

from tests.support.cli import Rehearse

COMMANDS = (
    "compare RUN RUN -o FILE",
    "compare RUN RUN --json FILE",
    "failures RUN -o FILE",
    "failures RUN --json FILE",
    "failures blame EPISODE -n 0 --json FILE",
    "promote GATE RUN -o FILE",
    "promote GATE RUN --junit FILE",
    "export RUN --to jsonl -o FILE",
    "export RUN --to otlp -o FILE",
    "view RUN --export FILE",
    "bench shop_support -n 2 --json FILE",
)


def test_a_link_stays_a_link(rehearse: Rehearse, tmp_path: Path) -> None:
    """A result goes through the link into the file to which it leads, as with a shell's `>`."""
    run, gate = tmp_path / "run", tmp_path / "gate.toml"
    gate.write_text('[[stage]]\nname = "s"\ncriteria = ["completed >= 0.0"]\n')
    assert rehearse("run", "shop_support", "-p", "mutant", "-n", 4, "-o", run)[0] == 0
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    named = {"RUN": run, "EPISODE": run / "e000000", "GATE": gate, "FILE": link}
    wrong = []
    for command in COMMANDS:
        target.write_text("old")
        status, _, err = rehearse(*(named.get(word, word) for word in command.split()))
        if status or not link.is_symlink() or target.read_bytes() in (b"", b"old"):
            wrong.append((command, status, err[-300:]))
    assert wrong == []
