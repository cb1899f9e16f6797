"""A checkout in the form of Agent World Model's released code, with prompts of our own.

The real one has no licence, so it is not here; tests/suites/parity plays with it.
"""

from hashlib import sha256
from pathlib import Path

import pytest

from rehearsal_room.scenarios.awm import released_code

AGENT_PROMPT = '    # Tools\n\n    1. look\n- twice\n\n    Say {"a": 1}.'
JUDGE_PROMPT = "You compare.\n    - {complete}"
_FILES = {
    "agent.py": '''
def get_system_prompt() -> str:
    tools_str = dedent("""\\
        1. look
            - twice""")

    return dedent(f"""\\
        # Tools

        {tools_str}

        Say {{"a": 1}}.""")
''',
    "verify.py": '''
async def run_llm_judge(task):
    if not task:
        return "judge_error", {}
    try:
        system_prompt = dedent("""\\
            You compare.
                - {complete}""")
        return system_prompt
    except Exception:
        return "judge_error", {}
''',
}


def write_released_code(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write it, as the one version that is accepted; returns the folder."""
    digests = {}
    for name, text in _FILES.items():
        path = folder / "awm" / "core" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        digests[path.relative_to(folder)] = sha256(text.encode()).hexdigest()
    monkeypatch.setattr(released_code, "_DIGESTS", digests)
    return folder
