"""The image that the Containerfile describes: built by buildah, and run.

    make test-image
    make test-image PYTHON_IMAGE=localhost/python:3.11-slim BUILD_OPTIONS="--volume ..."

PYTHON_IMAGE is the base image, BUILD_OPTIONS goes to `buildah bud`: where there is no network, they
name a local image and the folders of packages. It runs in a root directory of its own (isolation by
chroot), so that it needs no control groups.
"""

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from examples.servers.serving import free_port
from pdproto.transport.keys import new_secret
from tests.skips import NO_MOUNT
from tests.waiting import until

ROOT: Final = Path(__file__).resolve().parents[2]
BASE: Final = os.environ.get("PYTHON_IMAGE", "docker.io/library/python:3.11-slim")
OPTIONS: Final = shlex.split(os.environ.get("BUILD_OPTIONS", ""))
IMAGE: Final = "localhost/pdproto-under-test"
NO_BUILDAH: Final = "no buildah here (Debian: buildah), or no base image: see PYTHON_IMAGE"
ANYWHERE: Final = "0.0.0.0"  # noqa: S104 - the image listens beyond its container
BUILD_S: Final = 900
RUN_S: Final = 60

pytestmark = [pytest.mark.slow, pytest.mark.nightly]


def buildah(*arguments: str, seconds: float = RUN_S) -> subprocess.CompletedProcess[str]:
    environment = {"BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "vfs", **os.environ}
    return subprocess.run(["buildah", *arguments], env=environment, capture_output=True, text=True,
                          timeout=seconds, check=False)


@pytest.fixture(scope="module")
def container() -> Iterator[str]:
    """A container of the image, which is built for it."""
    if shutil.which("buildah") is None or (
            buildah("inspect", "--type", "image", BASE).returncode
            and buildah("pull", BASE, seconds=BUILD_S).returncode):
        pytest.skip(NO_BUILDAH)
    built = buildah("bud", "--network", "host", *OPTIONS, "--build-arg", f"PYTHON={BASE}",
                    "--tag", IMAGE, "--file", "deploy/Containerfile", str(ROOT), seconds=BUILD_S)
    assert built.returncode == 0, built.stdout[-2000:] + built.stderr[-2000:]
    made = buildah("from", IMAGE)
    assert made.returncode == 0, made.stderr
    name = made.stdout.split()[-1]
    try:
        yield name
    finally:
        buildah("rm", name)
        buildah("rmi", IMAGE)


def run(container: str, *words: str, secret: str = "") -> subprocess.CompletedProcess[str]:
    """Run a program in the container."""
    return buildah("run", "--network", "host", "--env", f"PDPROTO_SECRET={secret}", container, "--",
                   *words)


def test_it_serves_members_of_the_cluster_alone(container: str) -> None:
    """By the probe of the manifests, which runs in the same image."""
    secret, other = new_secret(), new_secret()
    address = f"https://127.0.0.1:{(port := free_port())}/metrics"
    serving = subprocess.Popen(
        ["buildah", "run", "--network", "host", "--env", f"PDPROTO_SECRET={secret}", container,
         "--", "pdproto", "registry", "--host", ANYWHERE, "--port", str(port)],
        env={"BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "vfs", **os.environ})
    try:
        asked = ("pdproto", "node", "probe", address)
        until(lambda: not run(container, *asked, secret=secret).returncode)
        told = run(container, *asked, secret=secret)
        assert "pdproto_registry_ranks 0.0" in told.stdout
        refused = run(container, "pdproto", "node", "probe", address, secret=other)
        assert refused.returncode != 0
        assert "CERTIFICATE_VERIFY_FAILED" in refused.stdout + refused.stderr
    finally:
        serving.terminate()
        serving.wait(RUN_S)


def test_it_has_another_user_and_neither_compiler_nor_solver(container: str) -> None:
    told = run(container, "sh", "-c", "id -u; command -v gcc; python -c 'import z3'; pdproto "
               "--version").stdout.split()
    assert told[0] == "65532"
    assert told[1] == "pdproto", "a compiler is there"
    found = run(container, "python", "-c", "import pdproto, importlib.util as of; "
                "print(of.find_spec('z3'), of.find_spec('scipy'))")
    assert found.stdout.split() == ["None", "None"]


def test_without_keys_it_ends(container: str) -> None:
    ended = run(container, "pdproto", "registry", "--host", ANYWHERE)
    assert ended.returncode != 0
    assert "without keys" in ended.stderr + ended.stdout


def test_it_serves_from_a_root_that_it_cannot_write(container: str) -> None:
    """As `podman run --read-only` has it: no folder may be written, /tmp neither."""
    isolated = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-c"]
    if subprocess.run([*isolated, "true"], capture_output=True, check=False).returncode:
        pytest.skip(NO_MOUNT)
    root = buildah("mount", container).stdout.strip()
    inside = ("id -u; touch /x /tmp/x /opt/pdproto/x && echo written; "
              f"pdproto registry --host {ANYWHERE} --operator 127.0.0.1:9390 & served=$!; "
              "pdproto node probe --within 30 http://127.0.0.1:9390/health; "
              "pdproto node probe https://127.0.0.1:8998/metrics | grep ranks; "
              "kill $served; wait $served; echo ended $?")
    told = (f"mount --make-rprivate / && ip link set lo up && mount --bind {root} {root} && "
            f"mount --bind /dev {root}/dev && mount -t proc proc {root}/proc && "
            f"mount -o remount,bind,ro {root} && "
            f"exec chroot --userspec=65532:65532 {root} sh -c {shlex.quote(inside)}")
    try:
        ran = subprocess.run([*isolated, told], capture_output=True, text=True, timeout=RUN_S,
                             check=False, env={"PDPROTO_SECRET": new_secret(), "PATH":
                                               f"/opt/pdproto/bin:/usr/local/bin:{os.environ['PATH']}"})
    finally:
        buildah("umount", container)
    user, *rest = ran.stdout.splitlines()
    assert user == "65532", ran
    assert ran.stderr.count("Read-only file system") == 3
    assert "pdproto_registry_ranks 0.0" in rest
    assert rest[-1] == "ended 0"
    assert "written" not in rest
