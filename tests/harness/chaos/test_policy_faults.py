"""Faults of the model server: the client's retries deal with them, with a server and without."""

from typing import Any

import anyio
import pytest

from rehearsal_room.harness.chaos.course import CURRENT, Course
from rehearsal_room.harness.chaos.injector import Injector
from rehearsal_room.harness.chaos.policy import FaultyPolicy, FaultyTransport
from rehearsal_room.harness.core.errors import PolicyError
from rehearsal_room.harness.core.events import FaultInjected
from rehearsal_room.harness.dialects.native import Native
from rehearsal_room.harness.policies.base import Agent, Policy
from rehearsal_room.harness.policies.openai import OpenAIPolicy, OpenAISettings
from rehearsal_room.harness.policies.oracle import OraclePolicy
from rehearsal_room.harness.settings.model import ModelSettings
from tests.support.assignments import WINDOW, assignment
from tests.support.chaos import chaos_of, injecting
from tests.support.model_server import ModelServer

_FAULTS: dict[str, dict[str, Any]] = {
    "rate_limit": {"retry_after": 0.01},
    "stall": {"seconds": 0.01},
    "cut": {},
    "garbage": {},
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def injector_of(fault: str, **settings: Any) -> Injector:
    """The fault hits the first request, and no other."""
    return Injector(chaos_of({"policy": {fault: {**_FAULTS[fault], "at": [0.0], **settings}}}))


def agent_of(policy: Policy, injector: Injector, *, is_over_http: bool, attempts: int = 8) -> Agent:
    CURRENT.set(Course())
    model = ModelSettings(max_attempts=attempts)
    faulty = FaultyPolicy(policy, injector, model, is_over_http=is_over_http)
    return faulty.agent(assignment(episode="e5"))


def landed(fault: str, retried: bool, seconds: float = 0.0) -> FaultInjected:
    name = f"policy.{fault}"
    return FaultInjected(name, retried=retried, episode="e5", attempt=1, seconds=seconds)


@pytest.mark.parametrize("fault", _FAULTS)
async def test_a_client_gets_over_each_fault(fault: str) -> None:
    """The server is asked once more, but for a stall and for a refusal, which never reached it."""
    injector = injector_of(fault, **({"lasts": 0.0} if fault == "rate_limit" else {}))
    num_sent = {"rate_limit": 1, "stall": 1, "cut": 2, "garbage": 2}[fault]
    async with ModelServer() as server:
        settings = OpenAISettings("m", server.url, first_wait_s=0.01)
        client = OpenAIPolicy(settings, environment={})
        client.wrap_transport(lambda inner: FaultyTransport(inner, injector, timeout_s=9.0))
        async with client, injecting(injector) as faults:
            reply = await agent_of(client, injector, is_over_http=True).reply(WINDOW)
        assert (reply.text, len(server.requests)) == ("ok", num_sent)
        assert reply.attempts == (1 if fault == "stall" else 2)
    assert faults == [landed(fault, fault != "stall", _FAULTS[fault].get("seconds", 0.0))]


async def test_a_stall_beyond_the_time_limit_is_a_timeout() -> None:
    """The request is given up after its limit, and sent again."""
    injector = injector_of("stall", seconds=60)
    async with ModelServer() as server:
        settings = OpenAISettings("m", server.url, first_wait_s=0.01)
        client = OpenAIPolicy(settings, environment={})
        client.wrap_transport(lambda inner: FaultyTransport(inner, injector, timeout_s=0.02))
        async with client, injecting(injector) as faults:
            with anyio.fail_after(5):
                await agent_of(client, injector, is_over_http=True).reply(WINDOW)
    assert faults == [landed("stall", True, 60.0)]


@pytest.mark.parametrize("fault", _FAULTS)
async def test_a_policy_without_a_server_delivers_its_reply_again(fault: str) -> None:
    """Its replies are those of an undisturbed agent, each made once."""
    injector = injector_of(fault, **({"lasts": 0.0} if fault == "rate_limit" else {}))
    plain = OraclePolicy(Native()).agent(assignment(episode="e5"))
    async with injecting(injector) as faults:
        agent = agent_of(OraclePolicy(Native()), injector, is_over_http=False)
        replies = [await agent.reply(WINDOW) for _ in range(3)]
    expected = [await plain.reply(WINDOW) for _ in range(3)]
    assert [reply.calls for reply in replies] == [reply.calls for reply in expected]
    assert [reply.attempts for reply in replies] == [1 if fault == "stall" else 2, 1, 1]
    assert [event.fault for event in faults] == [f"policy.{fault}"]


async def test_a_reply_that_is_never_delivered_is_a_policy_error() -> None:
    """After as many attempts as a client makes the episode's model has failed."""
    injector = Injector(chaos_of({"policy": {"rate_limit": {"share": 1.0, "retry_after": 0.0}}}))
    async with injecting(injector) as faults:
        agent = agent_of(OraclePolicy(Native()), injector, is_over_http=False, attempts=3)
        with pytest.raises(PolicyError, match=r"too many requests \(after 3 attempts\)"):
            await agent.reply(WINDOW)
    assert [event.retried for event in faults] == [True, True, False]


async def test_nothing_is_hit_while_the_injector_is_off() -> None:
    """Before and after its run an injector changes nothing."""
    injector = Injector(chaos_of({"policy": {"cut": {"share": 1.0}}}))
    async with injecting(injector):
        pass
    reply = await agent_of(OraclePolicy(Native()), injector, is_over_http=False).reply(WINDOW)
    assert reply.attempts == 1
