"""Lengths of time as people write them."""

from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.core.duration import seconds
from posthouse.errors import ConfigurationError


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("90s", 90),
        ("5m", 300),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("2d", 172_800),
        ("1w", 604_800),
        ("250ms", 0.25),
        ("1.5h", 5400),
        (" 3S ", 3),
        (7, 7),
        (0.5, 0.5),
        (0, 0),
        (timedelta(minutes=2), 120),
    ],
)
def test_a_duration_is_read_as_people_mean_it(written, meant):
    assert seconds(written) == pytest.approx(meant)


@pytest.mark.parametrize(
    "written",
    ["", "s", "5", "5 parsecs", "5m later", "-5m", "1h-30m", "m5", "1h,30m", "٣s x", "5mm",
     -1, float("nan"), float("inf"), timedelta(seconds=-1)],
)  # fmt: skip
def test_what_is_not_a_duration_is_refused_with_what_was_written(written):
    with pytest.raises(ConfigurationError) as caught:
        seconds(written)
    assert repr(written) in str(caught.value)


@given(st.text(max_size=20))
def test_any_text_is_a_duration_or_a_configuration_error(text):
    with suppress(ConfigurationError):
        assert seconds(text) >= 0


@given(st.floats(0, 1e9))
def test_numbers_are_seconds(number):
    assert seconds(number) == number
