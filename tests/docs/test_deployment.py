"""The files in deploy/ name commands, settings, routes and tables that exist."""

import re
from pathlib import Path

import psycopg
import pytest
import typer
import yaml

from posthouse.cli import cli
from posthouse.server import create_app
from posthouse.settings import Settings, load_settings

DEPLOY = Path(__file__).parents[2] / "deploy"
FILES = [path for path in DEPLOY.rglob("*") if path.is_file()]
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
MANIFESTS = [
    document
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text())
]


def containers():
    for manifest in MANIFESTS:
        template = manifest["spec"].get("template")
        if template:
            yield from template["spec"]["containers"]


def commands():
    for unit in UNITS:
        [line] = re.findall(r"^ExecStart=\S+/posthouse (.*)$", unit.read_text(), re.MULTILINE)
        yield pytest.param(line.split(), id=unit.name)
    for name, service in COMPOSE.items():
        if "command" in service:
            yield pytest.param(service["command"], id=f"compose {name}")
    for container in containers():
        yield pytest.param(container["args"], id=f"kubernetes {container['name']}")
    [line] = re.findall(r"^CMD (\[.*\])$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    yield pytest.param(yaml.safe_load(line), id="Dockerfile")


@pytest.mark.parametrize("arguments", list(commands()))
def test_the_command_line_takes_it(arguments):
    group = typer.main.get_command(cli)
    context = group.make_context("posthouse", list(arguments))
    name, command, rest = group.resolve_command(context, list(arguments))
    command.make_context(name, rest, parent=context)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_variable_is_a_setting(path):
    for variable in set(re.findall(r"POSTHOUSE_[A-Z_]+", path.read_text())):
        value = "postgresql://x" if variable.endswith("_URL") else "x" * 40
        load_settings(env={variable: value})


def test_probes_ask_for_what_anybody_may_see():
    paths = create_app(Settings(database_url="postgresql://nowhere")).openapi()["paths"]
    probes = [
        container[probe]["httpGet"]["path"]
        for container in containers()
        for probe in ("livenessProbe", "readinessProbe")
        if probe in container
    ]
    assert len(probes) == 2
    assert set(probes) <= paths.keys()


def test_the_scaler_counts_what_could_start(database):
    [query] = [
        manifest["spec"]["triggers"][0]["metadata"]["query"]
        for manifest in MANIFESTS
        if manifest["kind"] == "ScaledObject"
    ]
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("select posthouse.enqueue('k'), posthouse.enqueue('k', delay => '1 h')")
        assert connection.execute(query).fetchone() == (1,)
