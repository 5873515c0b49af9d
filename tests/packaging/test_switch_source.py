"""The switch is built of all patches, on the source they are made for or a later of Debian 12."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
BUILD = TOP / "ovs-patches/build"
MADE_FOR, LATER = "3.1.0-2+deb12u1", "3.1.0-2+deb12u9"

# An archive that has the packages in $ARCHIVE.
_STUBS = {
    "apt-get": """
        [ "$1" = download ] || exit 0
        cp "$ARCHIVE/openvswitch-source_${2#*=}.deb" . 2>/dev/null && exit
        echo "E: Version '${2#*=}' for 'openvswitch-source' was not found" >&2
        exit 100""",
    "apt-cache": """
        for deb in "$ARCHIVE"/*.deb; do
            [ ! -e "$deb" ] || basename "$deb" .deb | sed 's/_/ | /; s/$/ | http:\\/\\/archive/'
        done""",
}


def cache() -> Path:
    given = os.environ.get("WEIR_CACHE")
    home = os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")
    return Path(given) if given else Path(home) / "weir"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tarball = cache() / f"openvswitch-{MADE_FOR}.tar.gz"
    if not tarball.exists():
        pytest.skip("the switch's source is not in the cache: make switch")
    unpacked = tmp_path_factory.mktemp("source") / "openvswitch"
    unpacked.mkdir()
    subprocess.run(["tar", "xzf", tarball, "-C", unpacked, "--strip-components=1"], check=True)
    return unpacked


class Archive:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        (folder / "bin").mkdir()
        for name, text in _STUBS.items():
            stub = folder / "bin" / name
            stub.write_text(f"#!/bin/sh\n{text}\n")
            stub.chmod(0o755)

    def offer(self, revision: str, source: Path) -> None:
        root = self.folder / "package"
        (root / "DEBIAN").mkdir(parents=True)
        (root / "DEBIAN/control").write_text(
            f"Package: openvswitch-source\nVersion: {revision}\nArchitecture: all\n"
            "Maintainer: nobody <nobody@example.org>\nDescription: a source\n"
        )
        tarball = root / "usr/src/openvswitch/openvswitch.tar.gz"
        tarball.parent.mkdir(parents=True)
        subprocess.run(
            ["tar", "cf", tarball, "-I", "gzip -1", "-C", source.parent, source.name], check=True
        )
        deb = self.folder / f"openvswitch-source_{revision}.deb"
        subprocess.run(["dpkg-deb", "-Znone", "--build", root, deb], check=True)
        shutil.rmtree(root)

    def build(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [BUILD, *arguments],
            env=os.environ
            | {
                "PATH": f"{self.folder}/bin:/usr/bin:/bin:/usr/sbin:/sbin",
                "WEIR_CACHE": str(self.cache),
                "ARCHIVE": str(self.folder),
            },
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path)


def test_every_patch_is_in_the_series() -> None:
    # A patch that is left out is missed by nothing: its own tests are left out with it.
    lines = (BUILD.parent / "series").read_text().splitlines()
    named = [line for line in lines if line and not line.startswith("#")]

    assert named == sorted(patch.name for patch in BUILD.parent.glob("*.patch"))


def test_a_later_revision_is_taken_if_the_series_applies(archive: Archive, source: Path) -> None:
    archive.offer(LATER, source)
    prefix = archive.build("--prefix").stdout
    assert archive.build("--revision").stdout.strip() == MADE_FOR

    done = archive.build("--unpatched", "--unpack", str(archive.folder / "tree"))

    assert done.returncode == 0, done.stderr
    assert f"fetching openvswitch-source {LATER}, since {MADE_FOR} is gone" in done.stdout
    assert (archive.folder / "tree/lib/netdev-linux.c").exists()
    assert archive.build("--revision").stdout.strip() == LATER
    assert archive.build("--prefix").stdout != prefix  # It is another source.
    again = archive.build("--unpack", str(archive.folder / "again"))
    assert (again.returncode, again.stdout) == (0, "")


def test_what_the_series_does_not_apply_to_is_refused(
    archive: Archive, source: Path, tmp_path: Path
) -> None:
    changed = tmp_path / "changed"
    shutil.copytree(source, changed, symlinks=True)
    (changed / "lib/netdev-linux.c").write_text("/* Rewritten. */\n")
    archive.offer(LATER, changed)

    done = archive.build("--unpack", str(archive.folder / "tree"))

    assert done.returncode == 1
    assert f"the series does not apply to openvswitch-source {LATER}" in done.stderr
    assert "https://snapshot.debian.org" in done.stderr
    assert archive.build("--revision").stdout.strip() == MADE_FOR


@pytest.mark.parametrize("revision", ["3.3.0-1", "3.1.0-2", "3.1.0-2ubuntu1"])
def test_another_version_is_not_tried(archive: Archive, revision: str) -> None:
    (archive.folder / f"openvswitch-source_{revision}.deb").write_text("never opened")

    done = archive.build("--unpack", str(archive.folder / "tree"))

    assert done.returncode == 1
    assert "there is no openvswitch-source 3.1.0-*+deb12u*: is this Debian 12?" in done.stderr


def test_the_source_it_is_made_for_has_to_be_that(archive: Archive, source: Path) -> None:
    archive.offer(MADE_FOR, source)  # Packed anew, so with another hash.

    done = archive.build("--unpack", str(archive.folder / "tree"))

    assert done.returncode == 1
    assert "is not the source this series was made for" in done.stderr
