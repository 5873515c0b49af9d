"""Certificates for tests, made with OpenSSL's own program."""

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Pair:
    key: Path
    certificate: Path


class Authority:
    """Signs certificates; `certificate` is its own."""

    def __init__(self, directory: Path, name: str = "ca") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self.certificate = directory / f"{name}.pem"
        self._key = directory / f"{name}-key.pem"
        _openssl(
            *("req", "-x509", "-nodes", "-days", 30, "-subj", f"/CN={name}"),
            *(*_new_key(), "-keyout", self._key, "-out", self.certificate),
        )

    def issue(
        self, name: str, days: int = 30, alternatives: str = "", key: Path | None = None
    ) -> Pair:
        """A certificate for this CN, and for this key or a new one; one of negative `days` has
        expired."""
        pair = Pair(key or self._directory / f"{name}.key", self._directory / f"{name}.crt")
        of_key = ("-key", key) if key else (*_new_key(), "-keyout", pair.key)
        request = self._directory / f"{name}.csr"
        extensions = self._directory / f"{name}.ext"
        extensions.write_text(f"subjectAltName={alternatives}\n" if alternatives else "")
        _openssl(
            *("req", "-new", "-nodes", "-subj", f"/CN={name}"),
            *(*of_key, "-out", request),
        )
        _openssl(
            *("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self._key),
            *("-set_serial", 1 + abs(hash(name)) % 10**9, "-days", days),
            *("-extfile", extensions, "-out", pair.certificate),
        )
        return pair

    def revoke(self, *pairs: Pair) -> Path:
        """A revocation list with these on it."""
        index, config = self._directory / "index.txt", self._directory / "ca.cnf"
        index.touch()
        config.write_text(
            "[ca]\ndefault_ca = own\n[own]\ndefault_md = sha256\ndefault_crl_days = 30\n"
            f"database = {index}\nunique_subject = no\n"
        )
        own = ("ca", "-config", config, "-cert", self.certificate, "-keyfile", self._key)
        for pair in pairs:
            _openssl(*own, "-revoke", pair.certificate)
        revoked = self._directory / "crl.pem"
        _openssl(*own, "-gencrl", "-out", revoked)
        return revoked


def _new_key() -> tuple[str, ...]:
    return "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"


def _openssl(*arguments: object) -> None:
    done = subprocess.run(
        ["openssl", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"openssl {arguments}: {done.stderr}"
