"""The source trees that ovs-patches/build makes, and whether each patch of the series compiles."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
JOBS = os.cpu_count() or 1
_CFLAGS = "-O2 -g"


class CheckError(RuntimeError):
    """Something does not hold; the text says what, and shows what there is to see."""


def series() -> list[Path]:
    """The patches, in order."""
    lines = (HERE / "series").read_text().splitlines()
    names = [line.partition("#")[0].strip() for line in lines]
    return [HERE / name for name in names if name]


class Tree:
    """A built switch: ``variant`` is an option of ovs-patches/build, or none."""

    def __init__(self, *variant: str) -> None:
        self._variant = variant
        self.prefix = Path(self._ask("--prefix"))
        self.source = Path(self._ask("--source"))

    def require(self) -> None:
        """Raise CheckError unless it has been built."""
        if not (self.prefix / ".complete").exists():
            command = " ".join(("ovs-patches/build", *self._variant))
            raise CheckError(f"not built yet: {command} (make switch builds the patched one)")

    def _ask(self, what: str) -> str:
        argv = [str(HERE / "build"), *self._variant, what]
        return subprocess.check_output(argv, text=True).strip()


def style(tree: Tree) -> dict[str, int]:
    """utilities/checkpatch.py over every patch. Raises CheckError with what it says."""
    tree.require()
    patches = series()
    checkpatch = tree.source / "utilities/checkpatch.py"
    done = subprocess.run(
        [sys.executable, checkpatch, "--quiet", *patches],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise CheckError(done.stdout + done.stderr)
    return {"patches": len(patches)}


def compile_each(progress: Callable[[str], None]) -> dict[str, int]:
    """Apply the patches one by one and compile after each, warnings being errors.

    A verdict belongs to the content of the series up to a patch and is remembered, so that only
    what is new gets compiled. Raises CheckError naming the patch that does not.
    """
    patches = series()
    verdicts = [_verdict(patches[: n + 1]) for n in range(len(patches))]
    first = next((n for n, verdict in enumerate(verdicts) if not verdict.exists()), len(patches))
    if first < len(patches):
        verdicts[0].parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=verdicts[0].parent) as directory:
            work = _Work(Path(directory))
            for patch in patches[:first]:
                work.apply(patch)
            work.configure()
            for patch, verdict in zip(patches[first:], verdicts[first:], strict=True):
                progress(patch.name)
                work.apply(patch)
                work.compile(patch)
                verdict.touch()
    return {"patches": len(patches), "compiled_now": len(patches) - first}


def _verdict(patches: list[Path]) -> Path:
    key = hashlib.sha256(f"{_CFLAGS} {(HERE / 'build').read_text()}".encode())
    for patch in patches:
        key.update(patch.read_bytes())
    return Tree().prefix.parent / "compiled" / key.hexdigest()[:16]


class _Work:
    """A source tree to which patches are added while it is being compiled."""

    def __init__(self, directory: Path) -> None:
        self._source = directory / "openvswitch"
        self._log = directory / "log"
        subprocess.run([HERE / "build", "--unpack", self._source], check=True)

    def apply(self, patch: Path) -> None:
        self._run(f"{patch.name} does not apply", "git", "apply", "--whitespace=nowarn", patch)

    def configure(self) -> None:
        self._run(
            "configure fails",
            "./configure",
            "--enable-Werror",
            f"CC={'ccache ' if shutil.which('ccache') else ''}gcc",
            f"CFLAGS={_CFLAGS} -fdebug-prefix-map={self._source}=.",
            "PYTHON3=/usr/bin/python3",
        )

    def compile(self, patch: Path) -> None:
        self._run(f"the series does not compile up to {patch.name}", "make", "-s", f"-j{JOBS}")

    def _run(self, fault: str, *argv: str | Path) -> None:
        # Git applies nothing below a directory it ignores, unless it does not look for its own.
        environment = os.environ | {"GIT_CEILING_DIRECTORIES": str(self._source.parent)}
        with self._log.open("w") as log:
            done = subprocess.run(
                argv, cwd=self._source, env=environment, stdout=log, stderr=log, check=False
            )
        if done.returncode != 0:
            end = self._log.read_text(errors="replace").splitlines()[-30:]
            raise CheckError("\n".join((f"{fault}:", *end)))
