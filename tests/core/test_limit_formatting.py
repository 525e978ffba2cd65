"""Rates, names and facts as people write them."""

import pytest

from posthouse.core.capabilities import capability_words, checked_facts
from posthouse.core.limit import rate_per_second, shown_rate
from posthouse.errors import ConfigurationError


@pytest.mark.parametrize("text", ["10/s", "100/m", "1/s", "7/h", "1000/d", "1.5/s", "1/d"])
def test_a_rate_is_shown_as_it_was_written(text):
    assert rate_per_second(shown_rate(rate_per_second(text))) == pytest.approx(rate_per_second(text))
    assert text == "1.5/s" or shown_rate(rate_per_second(text)) == text


@pytest.mark.parametrize(("text", "shown"), [("60/m", "1/s"), ("5/30s", "10/m"), ("1/7d", "0.142857/d")])
def test_a_rate_is_shown_in_the_first_unit_that_fits(text, shown):
    assert shown_rate(rate_per_second(text)) == shown


@pytest.mark.parametrize("text", ["", "10", "10/", "/s", "0/s", "-1/s", "1/0s", "often", "1e3/s", "10/s/s"])
def test_what_is_no_rate_is_refused(text):
    with pytest.raises(ConfigurationError, match="10/s"):
        rate_per_second(text)


def test_the_facts_of_a_worker_are_a_small_object():
    assert checked_facts("") == {}
    assert checked_facts('{"pod": {"name": "a-1"}}') == {"pod": {"name": "a-1"}}
    assert len(checked_facts('{"a": "%s"}' % ("x" * 10_000))["a"]) == 10_000
    with pytest.raises(ConfigurationError, match="10,240"):
        checked_facts('{"a": "%s"}' % ("ü" * 6_000))


def test_capabilities_are_words_in_order_and_once_each():
    assert capability_words(" gpu, codec:h264,gpu,") == ["codec:h264", "gpu"]
    with pytest.raises(ConfigurationError, match="10,240"):
        capability_words(",".join(f"capability-{number}" for number in range(700)))
