"""Whether what a valid configuration names will work: files, directories, addresses, and for how
long certificates, revocation lists and tokens are good.

`problems` keep the controller, or a part of it, from working now. `warnings` are what will, within
two weeks, and what others should not be able to read or write.
"""

import contextlib
import errno
import os
import pwd
import socket
import stat
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509

from controller.api.access import tokens
from controller.config import files
from controller.config.errors import ConfigError
from controller.config.schema import Config

SOON = timedelta(days=14)


class Report(NamedTuple):
    """What was found, each as `key: what is wrong; what would be right`."""

    problems: list[str]
    warnings: list[str]


class _Named(NamedTuple):
    """A file that the configuration names, by its key."""

    key: str
    path: Path
    secret: bool


def inspect(config: Config, now: datetime, user: str | None = None) -> Report:
    """Look at all of it, as `user` would see it (by default whoever calls; others take root).

    Raises ConfigError if there is no such user, or it cannot be looked at as that one.
    """
    if user is not None:
        _entry(user)
    problems: list[str] = []
    warnings: list[str] = []
    named = list(_named(config))
    problems += _unreadable(named, user)
    try:
        files.check(config)
    except ConfigError as error:
        problems += [problem for problem in error.problems if problem not in problems]
    problems += _unusable_tokens(config, user)
    problems += _unusable_page(config, user)
    for one in lifetimes(config):
        begins, ends = one.begins, one.ends
        if begins is not None and now < begins:
            text = f"{one} is not good before {_day(begins)}; is the clock right?"
            problems.append(f"{one.key}: {text}")
        elif ends is not None and ends <= now:
            problems.append(f"{one.key}: {one} has been good until {_day(ends)}; replace it")
        elif ends is not None and ends - now < SOON:
            warnings.append(f"{one.key}: {one} is good until {_day(ends)} only; replace it")
    warnings += filter(None, map(_exposed, named))
    problems += _unusable_log(config, user)
    warnings += _taken(config)
    return Report(problems, warnings)


def _named(config: Config) -> Iterator[_Named]:
    tls, api = config.tls, config.northbound.api
    for key in ("key", "certificate", "ca", "crl"):
        path: Path | None = getattr(tls, key)
        if path is not None:
            yield _Named(f"tls.{key}", path, key == "key")
    if config.standby.secret is not None:
        yield _Named("standby.secret", config.standby.secret, True)
    if api is not None:
        yield _Named("northbound.api.tokens", api.tokens, True)
        if api.key is not None and api.certificate is not None:
            yield _Named("northbound.api.key", api.key, True)
            yield _Named("northbound.api.certificate", api.certificate, False)


# How long


class Lifetime(NamedTuple):
    """For how long something is good that a file holds; None: without a bound. `kind` is
    certificate, crl or token."""

    key: str
    kind: str
    name: str
    file: Path
    begins: datetime | None
    ends: datetime | None

    def __str__(self) -> str:
        return f"{self.kind} {self.name} of {self.file}"


def lifetimes(config: Config) -> Iterator[Lifetime]:
    """Of all certificates, revocation lists and tokens that a configuration names. Files that
    cannot be read are left out."""
    tls, api = config.tls, config.northbound.api
    certificates = {"tls.certificate": tls.certificate, "tls.ca": tls.ca}
    if api is not None:
        certificates["northbound.api.certificate"] = api.certificate
    for key, file in certificates.items():
        if file is not None:
            yield from _certificates(key, file)
    if tls.crl is not None:
        with contextlib.suppress(OSError, ValueError):
            crl = x509.load_pem_x509_crl(tls.crl.read_bytes())
            name = crl.issuer.rfc4514_string()
            ends = crl.next_update_utc
            yield Lifetime("tls.crl", "crl", name, tls.crl, crl.last_update_utc, ends)
    if api is not None:
        with contextlib.suppress(tokens.TokenError):
            for token in tokens.read(api.tokens).values():
                key = "northbound.api.tokens"
                yield Lifetime(key, "token", token.name, api.tokens, None, token.expires)


def _certificates(key: str, file: Path) -> Iterator[Lifetime]:
    with contextlib.suppress(OSError, ValueError):
        for found in x509.load_pem_x509_certificates(file.read_bytes()):
            name = found.subject.rfc4514_string() or "without a name"
            begins, ends = found.not_valid_before_utc, found.not_valid_after_utc
            yield Lifetime(key, "certificate", name, file, begins, ends)


def _day(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


# Who may


def _unreadable(named: Iterable[_Named], user: str | None) -> Iterator[str]:
    for key, path, _ in named:
        failed = _as_user(user, path, os.R_OK)
        if failed == errno.EACCES:
            who = user or pwd.getpwuid(os.geteuid()).pw_name
            yield f"{key}: {path} cannot be read by {who}; {_owned(path)}"
        elif failed and key == "northbound.api.tokens":
            right = f"weir-controller token {path} NAME makes it"
            yield f"{key}: {path}: {os.strerror(failed)}; {right}"
        elif failed:
            yield files.cannot_read(key, path, failed)


def _owned(path: Path) -> str:
    """Who owns what, as far as it can be seen, and how that is changed."""
    try:
        status = path.stat()
    except OSError:
        return f"look at the directories on the way: namei -l {path}"
    mode = stat.S_IMODE(status.st_mode)
    return f"it is of {_name(status.st_uid)}, mode {mode:04o}: chgrp weir {path}; chmod 0640 {path}"


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _exposed(named: _Named) -> str | None:
    try:
        mode = stat.S_IMODE(named.path.stat().st_mode)
    except OSError:
        return None
    if named.secret and mode & stat.S_IROTH:
        return f"{named.key}: everybody on this machine may read {named.path}; chmod 0640 it"
    if mode & stat.S_IWOTH:
        return f"{named.key}: everybody on this machine may write {named.path}; chmod o-w it"
    return None


def _unusable_tokens(config: Config, user: str | None) -> Iterator[str]:
    api = config.northbound.api
    if api is None or _as_user(user, api.tokens, os.R_OK):
        return
    try:
        tokens.read(api.tokens)
    except tokens.TokenError as error:
        yield f"northbound.api.tokens: {error}"


def _unusable_page(config: Config, user: str | None) -> Iterator[str]:
    api = config.northbound.api
    if api is None or api.page is None:
        return
    failed = _as_user(user, api.page / "index.html", os.R_OK)
    if failed:
        text = f"{api.page}/index.html cannot be read: {os.strerror(failed)}"
        yield f"northbound.api.page: {text}; name what dashboards/web/build --prefix prints"


def _unusable_log(config: Config, user: str | None) -> Iterator[str]:
    if config.log.events is None:
        return
    path = Path(config.log.events)
    if path.is_dir():
        yield f"log.events: {path} is a directory; name a file in it"
        return
    target = path if path.exists() else path.parent
    failed = _as_user(user, target, os.W_OK)
    if failed == errno.ENOENT:
        yield f"log.events: there is no directory {path.parent}; make it, or name another"
    elif failed:
        yield f"log.events: {path} cannot be written: {os.strerror(failed)}"


def _as_user(user: str | None, path: Path, wanted: int) -> int:
    """0, or the error number with which a user cannot have a file so. Raises ConfigError."""
    if user is None:
        return _access(path, wanted)
    entry = _entry(user)
    child = os.fork()
    if child == 0:
        # Nothing but this: the parent's threads and locks are not here.
        status = 255
        try:
            if os.geteuid() == 0:
                os.initgroups(user, entry.pw_gid)
                os.setgid(entry.pw_gid)
                os.setuid(entry.pw_uid)
            status = _access(path, wanted)
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def _entry(user: str) -> pwd.struct_passwd:
    """Raises ConfigError if there is no such user, or it cannot be looked at as that one."""
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        right = "name one that is there, such as weir"
        raise ConfigError(f"there is no user {user}; {right}") from None
    if os.geteuid() not in (0, entry.pw_uid):
        raise ConfigError(f"only root can look as {user}; try again with sudo")
    return entry


def _access(path: Path, wanted: int) -> int:
    try:
        path.stat()
    except OSError as error:
        return error.errno or errno.EIO
    return 0 if os.access(path, wanted, effective_ids=True) else errno.EACCES


# Where


def _taken(config: Config) -> Iterator[str]:
    """Addresses at which something listens: this controller if it runs."""
    asked: list[tuple[str, tuple[str, int]]] = [
        ("openflow.listen", (config.openflow.listen.host, config.openflow.listen.port))
    ]
    if config.standby.listen is not None:
        asked.append(("standby.listen", (config.standby.listen.host, config.standby.listen.port)))
    if config.northbound.metrics is not None:
        asked.append(("northbound.metrics", config.northbound.metrics))
    if config.northbound.api is not None:
        asked.append(("northbound.api.listen", config.northbound.api.listen))
    for key, (host, port) in asked:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            socket.create_server((host, port), family=family).close()
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                yield f"{key}: something listens on {host}:{port}; is it this controller?"
            else:
                yield f"{key}: cannot listen on {host}:{port}: {error.strerror or error}"
