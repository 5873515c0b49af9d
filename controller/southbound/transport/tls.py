"""TLS for the controller's ports. Certificates can be replaced while the controller runs.

OpenSSL works on bytes in memory here, not on a socket. So the same code reads and writes plain and
TLS connections, and there is only one kind of "would block".
"""

import contextlib
import socket
import ssl
from collections.abc import Iterable
from typing import Any, cast

from eventlet import Timeout

from controller.config.files import contexts
from controller.config.sections.tls import TlsSection
from controller.model.values import datapath_id

_PIECE_BYTES = 65_536


# What to do about a certificate, by X509_V_ERR_*.
_FOREIGN = "it must be of an authority in tls.ca"
_OF_CERTIFICATES = {
    3: "there is no revocation list of its authority in tls.crl",
    9: "is the clock right?",
    10: "give it a new one",
    12: "the list in tls.crl has expired: replace it",
    18: _FOREIGN,
    19: _FOREIGN,
    20: _FOREIGN,
    21: _FOREIGN,
    23: "it is on the list in tls.crl; give it a new one",
}


class HandshakeError(Exception):
    """The TLS handshake has failed; the text says why."""


class TlsConnection:
    """A connection over TLS after its handshake; implements `channel.Secured`."""

    def __init__(self, tls: ssl.SSLObject, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO):
        self._tls = tls
        self._incoming = incoming
        self._outgoing = outgoing

    @property
    def names(self) -> frozenset[str]:
        """The CN and the DNS names of the peer's certificate."""
        certificate = cast(dict[str, Any], self._tls.getpeercert() or {})
        subject = (pair for group in certificate.get("subject", ()) for pair in group)
        alternatives = certificate.get("subjectAltName", ())
        return frozenset(
            [value for kind, value in subject if kind == "commonName"]
            + [value for kind, value in alternatives if kind == "DNS"]
        )

    @property
    def owes(self) -> bool:
        """Whether TLS itself has something to send, which `seal(b"")` returns."""
        return self._outgoing.pending > 0

    def seal(self, data: bytes) -> bytes:
        """Encrypt; returns what to send. Raises OSError."""
        view = memoryview(data)
        while view:
            view = view[self._tls.write(view) :]  # a record at a time
        return self._outgoing.read()

    def open(self, received: bytes) -> bytes:
        """Decrypt; returns the data that is complete. Raises OSError, also at the end."""
        self._incoming.write(received)
        pieces: list[bytes] = []
        while True:
            try:
                piece = self._tls.read(_PIECE_BYTES)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLZeroReturnError:
                piece = b""
            except ssl.SSLError as error:
                # With TLS 1.3 a client learns only here that its certificate was refused.
                raise ConnectionAbortedError(_why(error)) from None
            if not piece:
                if pieces:
                    break  # The next read reports the end again.
                raise ConnectionResetError("the peer has ended the connection")
            pieces.append(piece)
        return b"".join(pieces)


class Credentials:
    """Key, certificate and authorities. New connections use what was loaded last."""

    def __init__(self, section: TlsSection) -> None:
        """Raises ConfigError if a file cannot be used."""
        self._section = section
        self._loaded = self._seen = _look(section)
        self._server, self._client = contexts(section)

    def follow(self, section: TlsSection) -> None:
        """Use another section. If it is invalid, raises ConfigError and keeps the former one."""
        seen = _look(section)
        self._server, self._client = contexts(section)
        self._section, self._loaded, self._seen = section, seen, seen

    def reload(self) -> None:
        """Read the files again. If they are invalid, raises ConfigError and keeps those in use."""
        self.follow(self._section)

    def changed(self) -> bool:
        """Whether the files have changed since they were read, and no longer change.

        They are replaced one after the other, and fit together only when all of them are there.
        """
        previous, self._seen = self._seen, _look(self._section)
        if self._seen != previous or self._seen == self._loaded:
            return False
        self._loaded = self._seen
        return True

    def admits(self, names: Iterable[str], switch: int) -> bool:
        """Whether a certificate with these names allows its owner to be this switch."""
        switches = self._section.switches
        if switches == "any":
            return True
        if switches == "named":
            plain = {name.replace(":", "").lower() for name in names}
            return datapath_id(switch) in plain
        return any(switch in switches.get(name, ()) for name in names)

    def accept(self, sock: socket.socket) -> TlsConnection:
        """The handshake with a client that has connected. Raises HandshakeError."""
        return self._handshake(sock, self._server, server_side=True)

    def connect(self, sock: socket.socket) -> TlsConnection:
        """The handshake with a server that we have connected to. Raises HandshakeError."""
        return self._handshake(sock, self._client, server_side=False)

    def _handshake(
        self, sock: socket.socket, context: ssl.SSLContext, *, server_side: bool
    ) -> TlsConnection:
        limit_s = self._section.handshake_timeout / 1e9
        late = Timeout(limit_s)
        try:
            return _shake(sock, context, server_side)
        except Timeout as timeout:
            if timeout is not late:
                raise
            raise HandshakeError(f"no TLS handshake within {limit_s:g} s") from None
        except ssl.SSLError as error:
            raise HandshakeError(_why(error)) from None
        except OSError as error:
            raise HandshakeError(error.strerror or str(error)) from None
        finally:
            late.cancel()


def _shake(sock: socket.socket, context: ssl.SSLContext, server_side: bool) -> TlsConnection:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_side=server_side)
    while True:
        try:
            tls.do_handshake()
            return TlsConnection(tls, incoming, outgoing)
        except ssl.SSLWantReadError:
            pass
        finally:
            # Also if it fails, to tell the peer why.
            if outgoing.pending:
                with contextlib.suppress(OSError):
                    sock.sendall(outgoing.read())
        received = sock.recv(_PIECE_BYTES)
        if not received:
            raise HandshakeError("it hung up during the TLS handshake")
        incoming.write(received)


def _why(error: ssl.SSLError) -> str:
    """OpenSSL's reason, for a human."""
    if isinstance(error, ssl.SSLCertVerificationError):
        remedy = _OF_CERTIFICATES.get(error.verify_code, "look at it with openssl x509 -text")
        return f"its certificate is refused: {error.verify_message}; {remedy}"
    match error.reason:
        case "PEER_DID_NOT_RETURN_A_CERTIFICATE":
            return "it has shown no certificate; give it one (a switch: set-ssl)"
        case "WRONG_VERSION_NUMBER" | "HTTP_REQUEST":
            return (
                "it does not speak TLS; have it connect by ssl: (a switch: set-controller), or "
                "write tcp: here"
            )
        case "UNSUPPORTED_PROTOCOL" | "TLSV1_ALERT_PROTOCOL_VERSION":
            return (
                f"it does not speak TLS of a version that is allowed ({error.reason}); see "
                "tls.minimum_version"
            )
        case "TLSV1_ALERT_UNKNOWN_CA":
            return (
                "it does not trust the authority of this controller's certificate; give it that "
                "authority's certificate (a switch: set-ssl), or mend tls.certificate"
            )
        case "SSLV3_ALERT_CERTIFICATE_EXPIRED":
            return "it says that this controller's certificate has expired; renew tls.certificate"
        case "SSLV3_ALERT_CERTIFICATE_REVOKED":
            return "it says that this controller's certificate is revoked; renew tls.certificate"
        case None:
            return str(error)
    return f"TLS fails: {error.reason.lower().replace('_', ' ')}"


def _look(section: TlsSection) -> tuple[tuple[int, int, int], ...]:
    """Time, size and inode of the files: if these change, the files have changed."""
    found = []
    for path in (section.key, section.certificate, section.ca, section.crl):
        try:
            stat = path.stat() if path is not None else None
        except OSError:
            stat = None
        found.append((stat.st_mtime_ns, stat.st_size, stat.st_ino) if stat else (0, 0, 0))
    return tuple(found)
