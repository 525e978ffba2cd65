"""The wheel and the source distribution, built and used outside the tree."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from support.waiting import WAIT_SECONDS

ROOT = Path(__file__).parents[2]
NOT_DISTRIBUTED = (".ci/", ".github/", ".gitignore")
pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]


def tracked(*paths):
    listed = subprocess.run(
        ["git", "ls-files", *paths], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("this is not a clone: there is no list of files to compare with")
    return {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}


def interpreter(version):
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    pyenv = Path.home() / ".pyenv" / "versions"
    found = shutil.which(f"python{version}") or ""
    for python in [found, *map(str, pyenv.glob(f"{version}.*/bin/python"))]:
        if python and subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0:
            return python
    return pytest.skip(f"there is no Python {version} on this machine")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with both. The wheel is built from the source distribution.

    Built from a copy: setuptools writes into the tree, where another worker of pytest may be building.
    """
    folder, copy = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("tree")
    for name in tracked():
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", folder, copy], check=True, stdout=subprocess.PIPE
    )
    return folder


@pytest.fixture(scope="module", params=["3.11", "3.12", "3.13"])
def installed(request, built, tmp_path_factory):
    """The folder of the programs of an environment with nothing but the wheel."""
    python = interpreter(request.param)
    environment = tmp_path_factory.mktemp("environment")
    subprocess.run([python, "-m", "venv", environment], check=True)
    (wheel,) = built.glob("*.whl")
    limits = ["--constraint", ROOT / "constraints.txt"]
    pip = [environment / "bin" / "pip", "install", "--quiet", *limits, f"{wheel}[embedded,server]"]
    subprocess.run(pip, check=True)
    return environment / "bin"


@pytest.fixture
def outside(tmp_path):
    """What a process needs that knows nothing of this tree."""
    keep = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "POSTHOUSE_"))
    }
    return {"cwd": tmp_path, "env": {**keep, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data")}}


def test_the_wheel_has_every_file_of_the_package(built):
    (wheel,) = built.glob("*.whl")
    names = {f"src/{name}" for name in zipfile.ZipFile(wheel).namelist() if name.startswith("posthouse/")}
    assert names == tracked("src/posthouse")


def test_the_source_distribution_has_every_tracked_file(built):
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert {name for name in tracked() - names if not name.startswith(NOT_DISTRIBUTED)} == set()


def test_the_first_example_of_readme_runs_from_the_wheel(installed, outside):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (outside["cwd"] / "hello.py").write_text(next(block for block in blocks if "# hello.py" in block))
    command = [installed / "python", "hello.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, **outside)
    assert (done.returncode, done.stdout) == (0, "Welcome, Ada!\n"), done.stderr


def test_posthouse_up_starts_from_the_wheel(installed, outside):
    command = [installed / "posthouse", "up", "--port", "0", "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **outside) as process:
        assert any("Posthouse is ready" in line for line in process.stdout)
        process.terminate()
        process.stdout.read()
        assert process.wait(WAIT_SECONDS) == 0
