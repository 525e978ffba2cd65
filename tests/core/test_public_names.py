"""What applications import."""

import posthouse

NAMES = [
    "App", "Cancel", "Client", "Fail", "Handle", "Job", "JobFailed", "LeaseLost", "Limit", "PosthouseError",
    "Request", "Retry", "Snooze", "SyncClient",
]  # fmt: skip


def test_the_public_names_are_few_sorted_and_exactly_these():
    assert posthouse.__all__ == sorted(posthouse.__all__) == NAMES
    assert len(posthouse.__all__) <= 15


def test_every_public_name_says_what_it_is():
    for name in posthouse.__all__:
        doc = getattr(posthouse, name).__doc__
        assert doc, name
        assert doc.strip() != "", name
