"""Fixtures for the tests of Posthouse and of the applications alike."""

pytest_plugins = [
    "fixtures.apps",
    "fixtures.cli",
    "fixtures.database",
    "fixtures.redis",
    "fixtures.s3",
    "fixtures.services",
    "fixtures.shop_package",
]
