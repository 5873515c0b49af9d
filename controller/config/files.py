"""The files that a configuration names: keys, certificates, the secret of standby controllers.

No I/O but of these files; so a configuration can be checked without a controller.
"""

import errno
import os
import ssl
from hashlib import blake2b
from pathlib import Path

from controller.config.errors import ConfigError
from controller.config.schema import Config
from controller.config.sections.tls import TlsSection

_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_SECRET_BYTES = 16


def check(config: Config) -> None:
    """Raises ConfigError if a file that it names cannot be used."""
    if config.tls.given:
        contexts(config.tls)
    api = config.northbound.api
    if api is not None and api.key is not None and api.certificate is not None:
        for name, path in (("key", api.key), ("certificate", api.certificate)):
            _require(f"northbound.api.{name}", path)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        _load_pair(context, "northbound.api", api.key, api.certificate)
    read_secret(config.standby.secret)


def cannot_read(key: str, path: Path, number: int) -> str:
    """What is wrong with a file that a key names, by an error number, and what to do."""
    right = "make it, or name another" if number == errno.ENOENT else "name another"
    return f"{key}: {path}: {os.strerror(number)}; {right}"


def _require(key: str, path: Path) -> None:
    """Raises ConfigError if a file cannot be read."""
    try:
        path.read_bytes()
    except OSError as error:
        raise ConfigError(cannot_read(key, path, error.errno or errno.EIO)) from error


def read_secret(path: Path | None) -> bytes:
    """Raises ConfigError."""
    if path is None:
        return b""
    try:
        secret = path.read_bytes().strip()
    except OSError as error:
        raise ConfigError(cannot_read("standby.secret", path, error.errno or errno.EIO)) from error
    if not _SECRET_BYTES <= len(secret) <= blake2b.MAX_KEY_SIZE:
        raise ConfigError(
            f"standby.secret: {path} holds {len(secret)} bytes; "
            f"it should be {_SECRET_BYTES} to {blake2b.MAX_KEY_SIZE} of them, at random"
        )
    return secret


def contexts(section: TlsSection) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """For those who connect to us, and for those whom we connect to."""
    return (
        _context(section, ssl.PROTOCOL_TLS_SERVER),
        _context(section, ssl.PROTOCOL_TLS_CLIENT),
    )


def _context(section: TlsSection, protocol: int) -> ssl.SSLContext:
    key, certificate, ca = section.key, section.certificate, section.ca
    assert key is not None and certificate is not None and ca is not None
    for name in ("key", "certificate", "ca", "crl"):
        path: Path | None = getattr(section, name)
        if path is not None:
            _require(f"tls.{name}", path)
    context = ssl.SSLContext(protocol)
    # Peers go by the names that the configuration gives them, not by where they are.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = _VERSIONS[section.minimum_version]
    # A resumed session would be as good as a certificate that has expired meanwhile.
    context.options |= ssl.OP_NO_TICKET
    if protocol == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0
    _load_pair(context, "tls", key, certificate)
    _authorities(context, "ca", ca)
    if section.crl is not None:
        _authorities(context, "crl", section.crl)
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    return context


def _load_pair(context: ssl.SSLContext, section: str, key: Path, certificate: Path) -> None:
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ConfigError(
                f"{section}.key: {key} is not the key of {certificate}; take the one that it was "
                "made with"
            ) from error
        why = f" ({error.reason})" if error.reason else "; are they swapped?"
        raise ConfigError(
            f"{section}.key, {section}.certificate: {key} and {certificate} do not hold a key and "
            f"its certificate in PEM{why}"
        ) from error
    except ValueError as error:
        raise ConfigError(f"{section}.key: {key} {error}") from error
    except OSError as error:
        raise ConfigError(f"{section}: {error}") from error


def _authorities(context: ssl.SSLContext, key: str, path: Path) -> None:
    before = context.cert_store_stats()
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as error:
        # OpenSSL's own reasons, for a file without anything of the kind among them, help nobody.
        raise ConfigError(_holds_none(key, path)) from error
    except OSError as error:
        raise ConfigError(f"tls.{key}: {error}") from error
    after = context.cert_store_stats()
    kind = "crl" if key == "crl" else "x509_ca"
    if after[kind] == before[kind]:
        raise ConfigError(_holds_none(key, path))


def _holds_none(key: str, path: Path) -> str:
    what = "revocation list" if key == "crl" else "certificate of an authority"
    return f"tls.{key}: {path} holds no {what} in PEM; name the file that does"


def _no_password() -> str:
    """OpenSSL would ask for it at the terminal."""
    raise ValueError("is encrypted; give one that is not, readable by the controller alone")
