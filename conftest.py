"""Fixtures for the tests of Posthouse and of the applications alike."""

pytest_plugins = ["common_fixtures", "app_fixtures", "redis_fixtures"]
