"""The peers' own environments: a venv and a node_modules beside this file."""

import json
import shutil
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).parent
REPOSITORY = HERE.parent.parent
VENV = HERE / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
NODE_MODULES = HERE / "node_modules"
REQUIREMENTS = HERE / "requirements.txt"
PACKAGE_JSON = HERE / "package.json"

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
    command = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund"]
    if not _installed([*command, "--loglevel=error"]):
        raise InstallError("npm install failed")
    # npm leaves out an optional package that it cannot install: then try again the next time.
    if all((NODE_MODULES / name).is_dir() for name in _node_packages()):
        _mark_current(NODE_MODULES, PACKAGE_JSON)


def _pip(*arguments: str) -> list[str]:
    pip = [str(VENV_PYTHON), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    return [*pip, *arguments]


def _installed(command: list[str]) -> bool:
    # stdout carries the result of the whole run, so what an installer says goes to stderr.
    finished = subprocess.run(command, cwd=HERE, stdout=sys.stderr, timeout=INSTALL_TIMEOUT_S, check=False)
    return finished.returncode == 0


def _requirements() -> list[str]:
    lines = REQUIREMENTS.read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def _node_packages() -> list[str]:
    manifest = json.loads(PACKAGE_JSON.read_text())
    return [*manifest["dependencies"], *manifest["optionalDependencies"]]


def _is_current(environment: Path, wanted: Path) -> bool:
    stamp = environment / ".installed"
    return stamp.exists() and stamp.read_text() == wanted.read_text()


def _mark_current(environment: Path, wanted: Path) -> None:
    (environment / ".installed").write_text(wanted.read_text())


def _note(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
