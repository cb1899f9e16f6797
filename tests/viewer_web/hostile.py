"""Texts that try to become more than text, and a run that has them wherever an agent, a world or a
judge writes."""

import json
from pathlib import Path
from shutil import copy

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.harness.core.events import (
    AgentOutput,
    AgentSpan,
    AgentSpans,
    Ending,
    EpisodeEnded,
    EpisodeStarted,
    Event,
    Judged,
    Label,
    ModelAsked,
    ModelJudgement,
    Record,
    SpanEvent,
    StepTaken,
)
from rehearsal_room.harness.core.messages import Act, AgentCall, Answer, Message, Reply
from rehearsal_room.harness.log.writer import open_log
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.format import read
from tests.support.library_log import snapshot_of
from tests.support.paths import LIBRARY

_DEEP = 3000
_MARKUP = [
    "<script>window.pwned=1</script>",
    "</script><script>window.pwned=1</script>",
    "<img src=x onerror='window.pwned=1'>",
    "<img src=https://evil.invalid/x.png>",
    "<svg onload='window.pwned=1'></svg>",
    "<svg><script>window.pwned=1</script></svg>",
    "<svg><animate onbegin='window.pwned=1' attributeName=x dur=1s></svg>",
    "<iframe srcdoc='<script>parent.pwned=1</script>'></iframe>",
    "<iframe src='javascript:parent.pwned=1'></iframe>",
    "<body onload='window.pwned=1'>",
    "<details open ontoggle='window.pwned=1'>x</details>",
    "<input autofocus onfocus='window.pwned=1'>",
    "<video><source onerror='window.pwned=1'></video>",
    "<audio src=x onerror='window.pwned=1'>",
    "<object data='javascript:window.pwned=1'></object>",
    "<embed src='javascript:window.pwned=1'>",
    "<a href='javascript:window.pwned=1'>click</a>",
    "<a href='https://evil.invalid'>click</a>",
    "<form action='https://evil.invalid'><button>go</button></form>",
    "<meta http-equiv=refresh content='0;url=https://evil.invalid'>",
    "<base href='https://evil.invalid/'>",
    "<link rel=stylesheet href='https://evil.invalid/x.css'>",
    "<style>*{display:none}</style>",
    "<style>@import 'https://evil.invalid/x.css'</style>",
    "<math><mtext><script>window.pwned=1</script></mtext></math>",
    "<template><script>window.pwned=1</script></template>",
    "<noscript><p title='</noscript><img src=x onerror=window.pwned=1>'>",
    "<textarea></textarea><script>window.pwned=1</script>",
    "<title></title><script>window.pwned=1</script>",
    "<!--<script>window.pwned=1</script>-->",
    "<![CDATA[<script>window.pwned=1</script>]]>",
    "<div id=app></div><div id=embedded>eA==</div>",
    "&lt;script&gt;window.pwned=1&lt;/script&gt; &#60;b&#62;",
    "\"><img src=x onerror=window.pwned=1>",
    "' onmouseover='window.pwned=1' x='",
    "javascript:window.pwned=1",
    "data:text/html,<script>window.pwned=1</script>",
    "${window.pwned=1} {{window.pwned=1}} #{window.pwned=1} `${window.pwned=1}`",
    "__proto__", "constructor", "toString", "dangerouslySetInnerHTML",
]  # fmt: skip
_CHARACTERS = [
    "rm -rf \u202egpj.exe\u202c end",
    "\u2066isolated\u2069 \u2067right\u2069 \u061cmark",
    "zero\u200bwidth \ufeffbom \u2060joiner \u00adsoft",
    "\u0000nul \u0001soh \u0007bell \u0008back \u007fdel \u0085nel \u009bcsi",
    "\x1b[31mred\x1b[0m \x1b]8;;https://evil.invalid\x07link\x1b]8;;\x07 \x1b[2J",
    "first\rover \x0bvertical \x0cform",
    "line\u2028separator\u2029paragraph",
    "tags \U000e0041\U000e0042\U000e007f hidden",
    "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 right to left",
    "Z\u0351\u036b\u0343\u036a\u0302" * 40,
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 family",
    "\uff1cscript\uff1e wide",
    "=HYPERLINK(\"https://evil.invalid\")",
]  # fmt: skip
_SIZES = [
    "x" * 200_000,
    "word " * 40_000,
    "\n" * 5_000 + "below",
    "[" * _DEEP + "]" * _DEEP,
    '{"a":' * _DEEP + "1" + "}" * _DEEP,
]
TEXTS = [
    f"BEGIN{number} {text} END{number}" for number, text in enumerate(_MARKUP + _CHARACTERS)
] + _SIZES


async def write_hostile(folder: Path, settings: Path) -> None:
    """Log an episode for each text. `settings` is the run.toml of a run of the same kind."""
    world = HostedScenario(read(LIBRARY))
    start = world.lease().start_digest
    async with open_log(folder) as log:
        log.add_scenario(snapshot_of(world))
        for number, text in enumerate(TEXTS):
            for seq, event in enumerate(_events(world, start, number, text)):
                log.append(Record(f"e{number:06d}", 0, seq, 1_700_000_000.0 + number, event))
            await log.wait_for_room()
    world.close()
    copy(settings, folder / "run.toml")


def _events(world: HostedScenario, start: str, number: int, text: str) -> list[Event]:
    lease = world.lease()
    call = AgentCall(text[:80], {"text": text, text[:40]: [text[:200]]}, "c0")
    change = RowChange(text[:60], (text[:60],), {"a": text[:3000], "b": 1}, {"a": 2, "b": 1})
    result = ToolResult(text, changes=(change,), digest="d" * 32)
    other = AgentCall("find", {}, "c1")
    failing = AgentCall(text[:80], {}, "c2")
    refused = ToolResult(text[:80], error="refused", digest="d" * 32)
    asked = Message("user", text, (call,))
    values = {text[:200]: text[:1000], "n": 1}
    span = AgentSpan(
        *("ab" * 16, f"{number:016x}", text[:200]),
        status="error",
        message=text[:1000],
        attributes=values,
        events=(SpanEvent(text[:200], 0.1, values),),
        scope=text[:200],
        service=text[:200],
    )
    rows = ToolResult(f'[{{"id": 1, "name": {json.dumps(text[:3000])}}}]', digest="d" * 32)
    finding = Finding(text[:300], False, text[:3000], text[:3000], "goal")
    judgement = ModelJudgement(text[:60], Label.AGENT_ERROR, reasoning=text, cited=(text[:30],))
    scenario = world.scenario
    return [
        EpisodeStarted(
            scenario=scenario.name,
            task=text[:60] or "t",
            instruction=text,
            group=f"g{number}",
            member=0,
            group_size=1,
            seed=3,
            policy=text[:60],
            dialect="native",
            history="full",
            fingerprint="f" * 16,
            scenario_digest=scenario.digest,
            start_digest=start,
            tags=(text[:40],),
        ),
        StepTaken(
            Reply(f"<think>{text}</think>{text}", (call, other, failing)),
            Act((call, other, failing)),
            (result, rows, refused),
        ),
        ModelAsked(0, 1, (asked,), Reply(text, (call,)), error=text[:500]),
        StepTaken(Reply(text), Answer(text)),
        AgentOutput(text, text, 1),
        AgentSpans((span,), 1, 1, text[:500]),
        EpisodeEnded(Ending.ANSWERED, text, 2, lease.state(), seconds=1.0),
        Judged(
            judge="hybrid:x",
            label=Label.AGENT_ERROR,
            reward=0.0,
            step_rewards=(0.0, 0.0),
            findings=(finding,),
            reasoning=text,
            proof=text[:500],
            judgements=(judgement,),
        ),
    ]
