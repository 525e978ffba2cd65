"""Settings: defaults < posthouse.toml < environment < flags."""

from pathlib import Path

import pytest

from posthouse.errors import ConfigurationError
from posthouse.settings import Settings, load_settings


@pytest.fixture
def load(tmp_path):
    def load(toml="", env=None, **flags):
        if toml:
            (tmp_path / "posthouse.toml").write_text(toml)
        return load_settings(env=env or {}, directory=tmp_path, **flags)

    return load


def refused(load, *args, **kwargs):
    with pytest.raises(ConfigurationError) as caught:
        load(*args, **kwargs)
    return str(caught.value)


def test_without_any_source_the_defaults_hold(load):
    assert load() == Settings()


def test_each_source_wins_over_the_one_before(load):
    toml = "concurrency = 2\nlease_seconds = 20\npoll_seconds = 0.2\n"
    env = {"POSTHOUSE_CONCURRENCY": "3", "POSTHOUSE_LEASE_SECONDS": "30"}
    settings = load(toml, env, concurrency=4)
    assert (settings.concurrency, settings.lease_seconds, settings.poll_seconds) == (4, 30, 0.2)


def test_a_flag_that_was_not_given_changes_nothing(load):
    assert load("concurrency = 2", concurrency=None).concurrency == 2


def test_an_empty_variable_counts_as_not_set(load):
    assert load("concurrency = 2", {"POSTHOUSE_CONCURRENCY": ""}).concurrency == 2


def test_variables_of_others_are_left_alone(load):
    assert load(env={"PATH": "/bin", "POSTHOUSEKEEPING": "x"}) == Settings()


VARIABLES = {"SHOP_ALERTS": "alert_webhook_url", "SHOP_LEASE_MINUTES": ("lease_seconds", 60.0)}


def test_an_application_can_name_variables_of_its_own_for_settings(load):
    env = {"SHOP_ALERTS": "https://example.com/hook", "SHOP_LEASE_MINUTES": "1.5"}
    settings = load("lease_seconds = 20", env, variables=VARIABLES)
    assert (settings.alert_webhook_url, settings.lease_seconds) == ("https://example.com/hook", 90)
    assert load(env={**env, "POSTHOUSE_LEASE_SECONDS": "40"}, variables=VARIABLES).lease_seconds == 40
    assert load("lease_seconds = 20", {}, variables=VARIABLES).lease_seconds == 20
    wrong = {"SHOP_LEASE_MINUTES": "soon"}
    assert refused(load, env=wrong, variables=VARIABLES) == "SHOP_LEASE_MINUTES must be a number, not 'soon'"
    assert "did you mean lease_seconds?" in refused(load, variables={"SHOP_LEASE": "lease_second"})


def test_times_may_carry_a_unit(load):
    assert load(env={"POSTHOUSE_LEASE_SECONDS": "2m"}).lease_seconds == 120
    assert load('lease_seconds = "1m"').lease_seconds == 60


def test_a_data_dir_may_start_at_home(load):
    assert load('data_dir = "~/jobs"').data_dir == Path("~/jobs").expanduser()


def test_a_misspelt_setting_is_refused_with_the_right_name(load):
    message = refused(load, env={"POSTHOUSE_LEASE_SECOND": "5"})
    assert "POSTHOUSE_LEASE_SECOND" in message
    assert "did you mean POSTHOUSE_LEASE_SECONDS?" in message
    assert "did you mean concurrency?" in refused(load, "concurency = 5")


def test_a_setting_like_no_other_is_refused_with_a_way_to_find_out(load):
    assert "posthouse config" in refused(load, "zzz = 5")


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ('concurrency = "many"', "concurrency"),
        ("concurrency = 2.5", "concurrency"),
        ("concurrency = 0", "at least 1"),
        ("lease_seconds = -1", "lease_seconds"),
        ("lease_seconds = nan", "lease_seconds"),
        ('poll_seconds = "soon"', "soon"),
        ("retention_days = 0", "retention_days"),
        ("max_payload_bytes = 0", "max_payload_bytes"),
        ("concurrency = [1]", "concurrency"),
        ("concurrency = ", "not valid TOML"),
        ("app = 3", "app must be a string, not 3"),
        ('commands = "perhaps"', "commands must be true or false"),
    ],
)
def test_a_wrong_value_is_refused_and_named(load, toml, said):
    assert said in refused(load, toml)


def test_a_file_in_another_encoding_is_refused_and_named(load, tmp_path):
    (tmp_path / "posthouse.toml").write_bytes(b'app = "caf\xe9"')
    assert f"{tmp_path / 'posthouse.toml'} is not valid TOML" in refused(load)


def test_a_wrong_variable_is_refused_and_named(load):
    message = refused(load, env={"POSTHOUSE_CONCURRENCY": "ten"})
    assert message == "POSTHOUSE_CONCURRENCY must be an integer, not 'ten'"


def test_a_lease_must_outlast_two_beats(load):
    message = refused(load, "heartbeat_seconds = 10\nlease_seconds = 15")
    assert "twice" in message


def test_secrets_are_masked_when_shown():
    shown = Settings(database_url="postgresql://me:hunter2@db/app", direct_url="x").masked()
    assert "hunter2" not in str(shown)
    assert shown["database_url"] == "********"
    assert Settings().masked()["database_url"] == ""
