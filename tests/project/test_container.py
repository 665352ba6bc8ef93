"""The Containerfile, without a program that builds images: its steps by hand, where they may run.

Where an image would be, there are a folder, another user, and namespaces of the test's own: the
root is mounted read-only, and no port of this machine is taken. test_image.py has such a program.
"""

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from pdproto.cli.registry import PORT
from pdproto.transport.keys import new_secret
from tests.skips import NO_MOUNT

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "deploy" / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
UNUSED = {"scipy", "z3-solver"}  # only checking needs them
SECONDS = 60


def stage(name: str) -> list[str]:
    """The instructions of a stage."""
    _, _, rest = TEXT.partition(f" AS {name}\n")
    assert rest, f"there is no stage {name}"
    lines = rest.split("\nFROM ")[0].splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def argument(name: str) -> str:
    """The argument of the only instruction of this name in the last stage."""
    (line,) = (each for each in stage("registry") if each.startswith(f"{name} "))
    return line.partition(" ")[2]


def exec_form(name: str) -> list[str]:
    """The words of an instruction such as CMD."""
    return re.findall(r'"([^"]*)"', argument(name))


def packages() -> list[str]:
    """The packages that the image installs beside pdproto."""
    (line,) = (each for each in stage("installed") if "--constraint" in each)
    found = re.search(r"--constraint \S+\s+([a-z0-9 -]+?)\s+&&", line)
    assert found is not None, line
    return found[1].split()


def test_the_image_has_every_dependency_that_serving_loads() -> None:
    """All of the core and of the runtime but two, which the registry and the probe do not load."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = (*project["dependencies"], *project["optional-dependencies"]["runtime"])
    wanted = {re.split(r"[<>=]", each)[0] for each in needed}
    assert set(packages()) == wanted - UNUSED
    program = ("import sys, pdproto.cli.main, pdproto.cli.registry, pdproto.cli.probe\n"
               "print(*{'scipy', 'z3'} & sys.modules.keys())")
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                         timeout=SECONDS, check=True)
    assert ran.stdout.split() == []


def test_it_serves_as_nobody_at_the_port_that_it_names() -> None:
    assert [*exec_form("ENTRYPOINT"), *exec_form("CMD")][:2] == ["pdproto", "registry"]
    assert "--insecure" not in exec_form("CMD")
    assert argument("EXPOSE") == str(PORT)
    user, _, group = argument("USER").partition(":")
    assert int(user) > 0
    assert int(group) > 0


@pytest.fixture
def image() -> Iterator[Path]:
    """The folder of the image: the program below opt, built from the files of the context."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    try:
        source, wheels, opt = folder / "source", folder / "wheel", folder / "opt"
        for line in (ROOT / ".containerignore").read_text(encoding="utf-8").splitlines():
            name = line.removeprefix("!")
            if line.startswith("!") and (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, source / name, symlinks=True,
                                ignore=shutil.ignore_patterns("__pycache__", "*.so"))
            elif line.startswith("!"):
                shutil.copy(ROOT / name, source / name)
        subprocess.run([sys.executable, "-m", "build", "--wheel", "--outdir", wheels, source],
                       capture_output=True, check=True)
        venv.create(opt, symlinks=True)
        install = [sys.executable, "-m", "pip", "--python", str(opt / "bin/python"), "install",
                   "--quiet", "--no-cache-dir"]
        subprocess.run([*install, "--constraint", str(ROOT / "constraints.txt"), *packages()],
                       capture_output=True, check=True)
        subprocess.run([*install, "--no-deps", *map(str, wheels.glob("*.whl"))],
                       capture_output=True, check=True)
        moved(opt, folder / "python")
        yield opt
    finally:
        shutil.rmtree(folder)


def moved(opt: Path, python: Path) -> None:
    """Let the environment use a Python at this place, which `run` mounts there: the one of this
    process may lie where another user cannot read it.
    """
    python.mkdir()
    (opt / "bin/python").unlink()
    (opt / "bin/python").symlink_to(python / f"bin/python3.{sys.version_info.minor}")
    (opt / "pyvenv.cfg").write_text(f"home = {python}/bin\n")


def run(image: Path, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script as the user of the image, with its program, a read-only root and a network of
    its own. It skips the test where the machine allows none of this.
    """
    user, _, group = argument("USER").partition(":")
    told = (f"mount --make-rprivate / && ip link set lo up && "
            f"mount --bind {sys.base_prefix} {image.parent}/python && "
            f"for at in $(cut -d' ' -f2 /proc/self/mounts | grep -E '^/(tmp|root|home|var)?$'); "
            f"do mount -o remount,bind,ro $at; done && "
            f"exec setpriv --reuid={user} --regid={group} --clear-groups --bounding-set=-all "
            f"--no-new-privs sh -c {shlex.quote(script)}")
    isolated = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child"]
    if subprocess.run([*isolated, "true"], capture_output=True, check=False).returncode:
        pytest.skip(NO_MOUNT)
    return subprocess.run(
        [*isolated, "sh", "-c", told], capture_output=True, text=True, timeout=SECONDS, check=False,
        env={"PATH": f"{image}/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/nonexistent",
             "LD_LIBRARY_PATH": f"{image.parent}/python/lib", "PYTHONDONTWRITEBYTECODE": "1",
             **variables})


@pytest.mark.nightly
@pytest.mark.slow
def test_the_registry_runs_as_another_user_on_a_root_that_it_cannot_write(image: Path) -> None:
    """By the command of the image: the probe of the manifests answers, and without keys it ends."""
    command = shlex.join([*exec_form("ENTRYPOINT"), *exec_form("CMD")])
    url = f"https://127.0.0.1:{PORT}/metrics"
    ran = run(image, f"id -u; touch {image}/x /tmp/x && echo written; {command} & server=$!; "
                     f"pdproto node probe --within 30 {url} | head -1; "
                     f"kill $server; wait $server; echo ended $?", PDPROTO_SECRET=new_secret())
    user, *rest = ran.stdout.splitlines()
    assert user == argument("USER").partition(":")[0]
    assert any(line.startswith("# HELP") for line in rest), ran
    assert rest[-1] == "ended 0"
    assert "written" not in rest
    refused = run(image, command)
    assert refused.returncode == 2
    assert "would listen on 0.0.0.0 without keys" in refused.stderr
