"""The files in deploy/ name commands, settings, routes and tables that exist."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
import typer
import yaml

from posthouse.cli.main import cli
from posthouse.metrics.worker import LIVE_PATH
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


def test_probes_use_public_endpoints():
    paths = create_app(Settings(database_url="postgresql://nowhere")).openapi()["paths"]
    probes = [
        container[probe]["httpGet"]["path"]
        for container in containers()
        for probe in ("livenessProbe", "readinessProbe")
        if probe in container
    ]
    assert len(probes) == 3
    assert set(probes) - paths.keys() == {LIVE_PATH}, "a worker answers it on its metrics port"


def test_the_scaler_counts_what_could_start(database):
    [query] = [
        manifest["spec"]["triggers"][0]["metadata"]["query"]
        for manifest in MANIFESTS
        if manifest["kind"] == "ScaledObject"
    ]
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("select posthouse.enqueue('k'), posthouse.enqueue('k', delay => '1 h')")
        assert connection.execute(query).fetchone() == (1,)


def directives(unit):
    lines = [line for line in unit.read_text().splitlines() if "=" in line and not line.startswith("#")]
    return [tuple(line.split("=", 1)) for line in lines]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_run_without_privileges_and_can_write_artifacts(unit):
    found = directives(unit)
    for wanted in (
        ("NoNewPrivileges", "true"),
        ("CapabilityBoundingSet", ""),
        ("SystemCallFilter", "@system-service"),
        ("SystemCallArchitectures", "native"),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "true"),
        ("StateDirectory", "posthouse"),
        ("StateDirectoryMode", "0700"),
        ("Environment", "POSTHOUSE_DATA_DIR=/var/lib/posthouse"),
    ):
        assert wanted in found


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_accepts_the_units_and_finds_little_exposed(unit, tmp_path):
    text = unit.read_text()
    for ours, there in (("/srv/shop/.venv/bin/posthouse", "/bin/true"), ("User=posthouse", "User=daemon")):
        text = text.replace(ours, there)
    text = re.sub("^(EnvironmentFile|WorkingDirectory)=.*$", "", text, flags=re.MULTILINE)
    copy = tmp_path / unit.name
    copy.write_text(text)
    verified = subprocess.run(
        ["systemd-analyze", "verify", copy], capture_output=True, text=True, check=False
    )
    assert (verified.returncode, verified.stderr) == (0, "")
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=20", copy]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout  # exposure of at most 2.0 of 10


def test_the_image_has_pinned_dependencies_in_their_own_layer_and_no_root():
    text = (DEPLOY / "Dockerfile").read_text()
    for install in re.findall(r"^RUN .*pip install.*$|^ && pip install.*$", text, re.MULTILINE):
        assert "--constraint" in install or "--no-deps" in install
    assert text.index("--requirement") < text.index("COPY . /src")
    assert re.findall(r"^USER (.*)$", text, re.MULTILINE) == ["10001"]
    assert "HEALTHCHECK" in text


def test_the_build_context_holds_what_the_image_installs_and_nothing_else():
    lines = (DEPLOY.parent / ".dockerignore").read_text().splitlines()
    kept = [line for line in lines if line and not line.startswith("#")]
    assert kept[0] == "*"
    for name in kept[1:]:
        if name.startswith("!"):
            assert (DEPLOY.parent / name[1:]).exists(), name


def test_the_dependency_layer_installs_what_the_server_needs():
    [code] = re.findall(r'python -c "(.*)" > /src/requirements.txt', (DEPLOY / "Dockerfile").read_text())
    command = [sys.executable, "-c", code.replace("/src/", f"{DEPLOY.parent}/")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    pinned = {
        line.partition("==")[0].lower()
        for line in (DEPLOY.parent / "constraints.txt").read_text().splitlines()
    }
    names = {re.split(r"[\[<>=; ]", line)[0].lower() for line in printed}
    assert {"psycopg", "fastapi"} <= names
    assert {name.replace("-", "_") for name in names} <= {name.replace("-", "_") for name in pinned}


def test_compose_publishes_on_loopback_and_has_pgvector():
    ports = [port for service in COMPOSE.values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert COMPOSE["postgres"]["image"].startswith("pgvector/pgvector:")
