"""nginx and curl: files of known content are fetched and stored, and compared byte by byte."""

import hashlib
import math
import random
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.soak.programs.work import CheckError, Client, Tally
from experiments.traffic.programs.app import Service, program
from experiments.traffic.programs.http import configure, nginx_argv

SIZES_BYTES = (
    0, 1, 2, 100, 1_000, 1_447, 1_448, 1_449, 4_096, 16_384, 65_535, 65_536, 65_537, 300_000,
    1_000_000, 1_048_577, 5_000_000, 20_000_000,
)  # fmt: skip
MODES = ("keep_alive", "connection_each", "parallel", "upload", "slow_reader", "broken_off")
_DRAWN_SIZES, _MOST_DRAWN_BYTES = 20, 2_000_000
_LARGE_BYTES, _SHARE_OF_LARGE = 5_000_000, 0.2
_PATIENCE_S = 240
_TIMED_OUT = 28
_KEPT = 3


@dataclass(frozen=True)
class File:
    """A file of the server, and what it has to contain."""

    path: Path
    size_bytes: int
    sha256: str


class Nginx(Service):
    """nginx with ``files``, which also stores what is PUT below /stored/."""

    name = "http"
    port = 8080

    def __init__(self, seed: int) -> None:
        self.files: list[File] = []
        self._rng = random.Random(f"{seed} files")

    def prepare(self, folder: Path) -> None:
        """See Service."""
        (folder / "files/stored").mkdir(parents=True)
        magnitudes = [
            self._rng.uniform(0, math.log(_MOST_DRAWN_BYTES)) for _ in range(_DRAWN_SIZES)
        ]
        sizes = [*SIZES_BYTES, *(round(math.exp(magnitude)) for magnitude in magnitudes)]
        for number, size in enumerate(sizes):
            content = self._rng.randbytes(size)
            path = folder / "files" / f"{number}_{size}"
            path.write_bytes(content)
            self.files.append(File(path, size, hashlib.sha256(content).hexdigest()))
        stores = "location /stored/ { dav_methods PUT; }"
        configure(folder, self.port, http="client_max_body_size 64m;", server=stores)

    def argv(self, folder: Path) -> list[str]:
        """See Service."""
        return nginx_argv(folder)


def difference(received: Path, wanted: File) -> str | None:
    """Describe how a file differs from what it has to be; None if it does not."""
    if not received.exists():
        return f"{wanted.path.name}: there is no file"
    content = received.read_bytes()
    if hashlib.sha256(content).hexdigest() == wanted.sha256:
        return None
    original = np.frombuffer(wanted.path.read_bytes(), dtype=np.uint8)
    other = np.frombuffer(content, dtype=np.uint8)
    common = min(len(original), len(other))
    differing = np.nonzero(original[:common] != other[:common])[0]
    where = (
        f"{len(differing)} bytes differ, the first at {differing[0]}"
        if len(differing)
        else ("all that came is right")
    )
    return f"{wanted.path.name}: {len(other)} bytes came of {len(original)}; {where}"


class Fetcher:
    """One after the other, batches of transfers in each of ``MODES``, in an order that ``seed``
    decides. ``keep`` gets the first files that are wrong."""

    def __init__(
        self, nginx: Nginx, server: str, pid: int, folder: Path, keep: Path, tally: Tally, seed: str
    ) -> None:
        self._nginx, self._pid, self._folder, self._keep = nginx, pid, folder, keep
        self._url = f"http://{server}:{nginx.port}"
        self._tally = tally
        self._rng = random.Random(seed)
        self._modes: list[str] = []
        self._number = 0
        folder.mkdir()

    def step(self) -> None:
        """Do one batch. Raises CheckError at the first fault in it."""
        if not self._modes:
            self._modes = self._rng.sample(MODES, len(MODES))
        mode = self._modes.pop()
        self._number += 1
        match mode:
            case "upload":
                self._upload()
            case "broken_off":
                self._break_off()
            case "slow_reader":
                wanted = [f for f in self._nginx.files if 300_000 <= f.size_bytes < 1_100_000]
                rate = self._rng.choice(("200k", "1M"))
                self._fetch([self._rng.choice(wanted)], ["--limit-rate", rate])
            case "connection_each":
                self._fetch(self._draw(), ["--header", "Connection: close"])
            case "parallel":
                at_once = str(self._rng.randint(2, 8))
                self._fetch(
                    self._draw(), ["--parallel", "--parallel-immediate", "--parallel-max", at_once]
                )
            case _:
                self._fetch(self._draw(), [])
        self._tally.count(f"http.{mode}_batches")

    def _draw(self) -> list[File]:
        small = [file for file in self._nginx.files if file.size_bytes < _LARGE_BYTES]
        large = [file for file in self._nginx.files if file.size_bytes >= _LARGE_BYTES]
        drawn = self._rng.choices(small, k=self._rng.randint(1, 16))
        if self._rng.random() < _SHARE_OF_LARGE:
            drawn.append(self._rng.choice(large))
        self._rng.shuffle(drawn)
        return drawn

    def _fetch(self, files: list[File], options: list[str]) -> None:
        pairs = [(file, self._folder / str(number)) for number, file in enumerate(files)]
        lines = [f'url = "{self._url}/{file.path.name}"\noutput = "{to}"\n' for file, to in pairs]
        statuses = self._curl(lines, options)
        faults = []
        for file, to in pairs:
            if wrong := difference(to, file):
                faults.append(wrong)
                self._keep_wrong(to)
            else:
                self._tally.count("http.files")
                self._tally.count("http.fetched_bytes", file.size_bytes)
            to.unlink(missing_ok=True)
        self._complain(faults, statuses, [200] * len(files))

    def _upload(self) -> None:
        pairs = [
            (file, f"stored/{self._folder.name}_{self._number}_{number}")
            for number, file in enumerate(self._draw()[:8])
        ]
        lines = [
            f'upload-file = "{file.path}"\nurl = "{self._url}/{name}"\noutput = "answer"\n'
            for file, name in pairs
        ]
        statuses = self._curl(lines, self._rng.choice(([], ["--header", "Connection: close"])))
        faults = []
        for file, name in pairs:
            stored = self._nginx.files[0].path.parent / name
            if wrong := difference(stored, file):
                faults.append(f"upload of {wrong}")
                self._keep_wrong(stored)
            else:
                self._tally.count("http.uploads")
                self._tally.count("http.uploaded_bytes", file.size_bytes)
            stored.unlink(missing_ok=True)
        self._complain(faults, statuses, [201] * len(pairs))

    def _break_off(self) -> None:
        """A client that goes in the middle: nothing of it may be left, nor taken for whole."""
        largest = max(self._nginx.files, key=lambda file: file.size_bytes)
        name = f"stored/{self._folder.name}_{self._number}"
        words = ["-m", f"{self._rng.uniform(0.05, 0.6):.2f}", "-o", "/dev/null"]
        is_upload = self._rng.random() < 0.5
        if is_upload:
            words += ["-T", str(largest.path), f"{self._url}/{name}"]
        else:
            words.append(f"{self._url}/{largest.path.name}")
        argv = [program("curl", "curl"), "-q", "-sS", *words]
        Client(argv, self._pid, self._folder).result(_PATIENCE_S, expected=(0, _TIMED_OUT))
        self._tally.count("http.broken_off")
        stored = largest.path.parent / name
        if is_upload and stored.exists():
            wrong = difference(stored, largest)
            stored.unlink()
            if wrong:
                raise CheckError(f"the server took a part for the whole: {wrong}")

    def _curl(self, lines: list[str], options: list[str]) -> list[int]:
        (self._folder / "transfers").write_text("".join(lines))
        argv = [
            *(program("curl", "curl"), "-q", "-sS", "--no-progress-meter", *options),
            *("-m", str(_PATIENCE_S), "-w", "%{http_code}\\n", "-K", "transfers"),
        ]
        said = Client(argv, self._pid, self._folder).result(_PATIENCE_S * 2)
        return [int(word) for word in said.split()]

    def _complain(self, faults: list[str], statuses: list[int], wanted: list[int]) -> None:
        if statuses != wanted:
            faults.append(f"curl has the statuses {statuses}, not {wanted}")
        if faults:
            raise CheckError("; ".join(faults))

    def _keep_wrong(self, file: Path) -> None:
        self._keep.mkdir(exist_ok=True)
        kept = len(list(self._keep.iterdir()))
        if file.exists() and kept < _KEPT:
            shutil.copy(file, self._keep / f"{self._folder.name}_{self._number}_{file.name}")
