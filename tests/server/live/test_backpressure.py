"""What waits for a client that is slower than what happens."""

from __future__ import annotations

import asyncio

import pytest

from posthouse.server.live import StreamFilter
from posthouse.server.live.subscriptions import StreamEvent, Subscription
from posthouse.server.routes import live
from support.waiting import WAIT_SECONDS


def a_client(most=3):
    return Subscription(StreamFilter(tenant="acme"), "key:test", most=most)


async def test_a_newer_state_takes_the_place_of_an_older_one():
    client = a_client()
    for job, state in (("a", b"1"), ("b", b"1"), ("a", b"2")):
        client.publish(StreamEvent("job", state), job)
    assert await client.next_events(1) == [StreamEvent("job", b"2"), StreamEvent("job", b"1")]
    assert await client.next_events(0.01) == []


async def test_what_is_too_much_is_counted_and_states_of_known_jobs_still_fit():
    client = a_client(most=2)
    for job in "abcd":
        client.publish(StreamEvent("job", b"1"), job)
    client.publish(StreamEvent("job", b"2"), "a")
    client.drop(10)
    events = await client.next_events(1)
    assert events == [
        StreamEvent("job", b"2"),
        StreamEvent("job", b"1"),
        StreamEvent("overflow", b'{"left_out":12}'),
    ]
    assert await client.next_events(0.01) == []


async def test_no_older_events_are_sent_after_a_reset():
    client = a_client()
    client.publish(StreamEvent("job", b"1"), "a")
    client.reset()
    client.publish(StreamEvent("job", b"2"), "b")
    assert await client.next_events(1) == [StreamEvent("reset", b"{}"), StreamEvent("job", b"2")]


@pytest.mark.parametrize("way", ["reads nothing", "hangs up"])
async def test_a_slow_client_is_disconnected_and_frees_its_slot(way, monkeypatch):
    monkeypatch.setattr(live, "SLOW_SECONDS", 0.05)
    left = asyncio.Event()

    async def blocks():
        while True:
            yield b": more\n\n"

    async def send(message):
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    async def receive():
        if way == "reads nothing":
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    answer = live.EventStreamResponse(b": first\n\n", blocks(), left.set)
    async with asyncio.timeout(WAIT_SECONDS):
        await answer({}, receive, send)
    assert left.is_set()
