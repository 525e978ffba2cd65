"""Wrong settings get a clear error at the start, and none of them shows the URL."""

import pytest

from posthouse.core.alerts import ORDINARY, AlertType, chosen_types, destinations
from posthouse.errors import ConfigurationError
from posthouse.settings import Settings


def names(text):
    return [(item.name, item.shape.value) for item in destinations(text)]


def test_destinations_are_named_and_shaped_by_their_host():
    urls = "https://hooks.slack.com/services/T/B/x, https://discord.com/api/webhooks/1/x https://ops.test/a"
    assert names(urls) == [("slack", "slack"), ("discord", "discord"), ("webhook", "json")]


def test_several_of_a_kind_get_numbers():
    assert names("https://a.test/,https://b.test/") == [("webhook", "json"), ("webhook-2", "json")]


def test_an_entry_may_say_its_name_and_its_shape():
    assert names("ops=slack+https://chat.test/hooks/a=b, http://c.test/?x=1") == [
        ("ops", "slack"), ("webhook", "json"),
    ]  # fmt: skip


def test_none_is_none():
    assert destinations("") == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ftp://files.test/T0KEN", "http"),
        ("file:///etc/T0KEN", "http"),
        ("hooks.slack.com/T0KEN", "entry 1"),
        ("https://ok.test/, T0KEN", "entry 2"),
        ("https:///T0KEN", "no host"),
        ("https://me:T0KEN@host.test/", "user or password"),
        ("https://host.test:99999/T0KEN", "not a valid URL"),
        ("https://[::1/T0KEN", "not a valid URL"),
        ("teams+https://host.test/T0KEN", "formats are json, slack, discord"),
        ("a=https://host.test/T0KEN,a=https://host.test/", "two destinations"),
    ],
)
def test_a_wrong_url_is_refused_and_not_shown(text, said):
    with pytest.raises(ConfigurationError, match=said) as caught:
        Settings(alert_webhook_url=text)
    assert "T0KEN" not in str(caught.value)


def test_types_are_listed_or_changed():
    assert chosen_types("queue_stuck, trigger_error") == {AlertType.QUEUE_STUCK, AlertType.TRIGGER_ERROR}
    assert chosen_types("+worker_shutdown,-queue_stuck") == ORDINARY - {AlertType.QUEUE_STUCK} | {
        AlertType.WORKER_SHUTDOWN
    }
    assert chosen_types(Settings().alert_types) == ORDINARY
    assert chosen_types("") == frozenset()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("queue_stuk", "unknown type 'queue_stuk'"),
        ("+nothing", "the types are"),
        ("queue_stuck,+worker_startup", "both"),
    ],
)
def test_a_wrong_type_is_refused(text, said):
    with pytest.raises(ConfigurationError, match=said):
        Settings(alert_types=text)


def test_the_url_and_the_secret_are_masked_where_settings_are_shown():
    shown = Settings(alert_webhook_url="https://ops.test/T0KEN", alert_webhook_secret="hunter2").masked()
    assert "T0KEN" not in str(shown)
    assert "hunter2" not in str(shown)
