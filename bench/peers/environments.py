"""The peers' own environments: a venv and a node_modules beside this file."""

import json
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

HERE = Path(__file__).parent
REPOSITORY = HERE.parent.parent
VENV = HERE / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
NODE_MODULES = HERE / "node_modules"
REQUIREMENTS = HERE / "requirements.txt"
PACKAGE_JSON = HERE / "package.json"
NODE_PEERS = ("graphile-worker", "pg-boss")

INSTALL_TIMEOUT_S = 600


class InstallError(Exception):
    pass


def prepare_python() -> None:
    if _is_current(VENV, REQUIREMENTS):
        return
    _note("installing the peers on PyPI into bench/peers/.venv")
    venv.EnvBuilder(with_pip=True, clear=True).create(VENV)
    if _installed(_pip("--requirement", str(REQUIREMENTS))):
        _mark_current(VENV, REQUIREMENTS)
        return
    # Line by line: a peer that this platform has no build for must not take the others along.
    # Its own script then fails at its import, and the next run tries again.
    for requirement in _requirements():
        if not _installed(_pip(requirement)):
            _note(f"could not install {requirement}")


def prepare_node() -> None:
    if not (shutil.which("node") and shutil.which("npm")):
        raise InstallError("node and npm are not installed")
    if _is_current(NODE_MODULES, PACKAGE_JSON):
        return
    _note("installing the peers on npm into bench/peers/node_modules")
    if _npm_installed(HERE):
        _mark_current(NODE_MODULES, PACKAGE_JSON)
        return
    # npm installs all or nothing. (Optional dependencies are no way out: it silently leaves out
    # those that ask for a newer Node, though they run.)
    if not any(_installed_without(package) for package in NODE_PEERS):
        raise InstallError("npm install failed")


def _pip(*arguments: str) -> list[str]:
    pip = [str(VENV_PYTHON), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    return [*pip, *arguments]


def _installed_without(package: str) -> bool:
    """Install the other peers on npm; the script of this one then fails at its import."""
    manifest = json.loads(PACKAGE_JSON.read_text())
    del manifest["dependencies"][package]
    with tempfile.TemporaryDirectory(dir=HERE) as folder:
        (Path(folder) / PACKAGE_JSON.name).write_text(json.dumps(manifest))
        if not _npm_installed(Path(folder)):
            return False
        shutil.rmtree(NODE_MODULES, ignore_errors=True)
        (Path(folder) / NODE_MODULES.name).rename(NODE_MODULES)
    _note(f"could not install {package}")
    return True


def _npm_installed(folder: Path) -> bool:
    options = ["--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
    return _installed(["npm", "install", *options], folder)


def _installed(command: list[str], folder: Path = HERE) -> bool:
    # stdout carries the result of the whole run, so what an installer says goes to stderr.
    finished = subprocess.run(command, cwd=folder, stdout=sys.stderr, timeout=INSTALL_TIMEOUT_S, check=False)
    return finished.returncode == 0


def _requirements() -> list[str]:
    lines = REQUIREMENTS.read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def _is_current(environment: Path, wanted: Path) -> bool:
    stamp = environment / ".installed"
    return stamp.exists() and stamp.read_text() == wanted.read_text()


def _mark_current(environment: Path, wanted: Path) -> None:
    (environment / ".installed").write_text(wanted.read_text())


def _note(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
