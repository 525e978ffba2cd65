"""posthouse stats: a table with charts, or JSON."""

from datetime import timedelta

import pytest

from posthouse import testing

HEADS = ("queue", "kind", "arrived", "finished", "failures", "wait", "run", "ready", "oldest")


async def test_stats_show_what_the_last_hour_brought(app, db, keeper, posthouse):
    @app.job(queue="mail")
    async def greet() -> None: ...

    await keeper.sampler.run_once()
    for _ in range(5):
        await greet.enqueue()
    await testing.drain(app)
    db.execute("select posthouse.enqueue('later', queue => 'mail')")
    async with testing.clock(app) as clock:
        # What waits is counted for the minute before, if not more than a minute ago: not right after its end.
        await clock.move_to((await clock.now() + timedelta(minutes=2)).replace(second=30))
        await keeper.sampler.run_once()
        table = posthouse("stats")
        lines = {line["kind"]: line for line in posthouse("stats", "--json").json}
        [whole] = posthouse("stats", "--by", "all", "--since", "1d", "--json").json
    for head in HEADS:
        assert head in table.out
    assert "█" in table.out
    assert (lines["greet"]["total"]["ended"], lines["greet"]["total"]["arrivals"]) == (5, 5)
    assert lines["greet"]["total"]["run_p95"] > 0
    assert (lines["later"]["total"]["ready"], lines["greet"]["total"]["ready"]) == (1, 0)
    assert whole["total"]["arrivals"] == 6
    assert len(whole["points"]) == 24


def test_without_samples_it_says_who_takes_them(posthouse):
    assert "keeper" in posthouse("stats").err
    assert posthouse("stats", "--json").json == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--by", "colour"), "invalid split"),
        (("--since", "1s"), "between one minute"),
        (("--step", "90s"), "whole number of minutes"),
    ],
)
def test_wrong_usage_of_stats_is_explained(posthouse, arguments, message):
    answer = posthouse("stats", *arguments)
    assert answer.code == 2
    assert message in answer.err
