"""The OpenFlow port: accepts switches over TLS or plain TCP, and refuses those not allowed.

Each connection has a green thread of its own and must say in time which switch it is, so slow,
silent or many clients hold up nobody else.
"""

import contextlib
import logging
import socket
from collections.abc import Callable, Iterable

from ryu.lib import hub

from controller.model.values import datapath_id
from controller.ops.failure import fatal
from controller.ops.refusals import Refusals
from controller.southbound.switch.admission import Admission
from controller.southbound.transport.channel import Channel, Listener
from controller.southbound.transport.rota import Rota
from controller.southbound.transport.tls import Credentials, HandshakeError

LOG = logging.getLogger("weir.openflow")

_ACCEPT_AGAIN_S = 0.1
_NEWCOMERS = 128


class Acceptor:
    """`credentials` are None for plain TCP. `admission` makes the budgets of a new connection.

    If too many connections have not said yet which switch they are, the oldest is closed.
    """

    def __init__(
        self,
        listening: socket.socket,
        credentials: Credentials | None,
        listener: Listener,
        admission: Callable[[], Admission],
        rota: Rota,
        clock_ns: Callable[[], int],
        fail: Callable[[], object],
    ) -> None:
        self.fail = fail
        self._listening = listening
        self._credentials = credentials
        self._listener = listener
        self._admission = admission
        self._rota = rota
        self._refusals = Refusals("switch", clock_ns)
        self._newcomers: dict[socket.socket, None] = {}  # The oldest first.

    @fatal
    def serve(self) -> None:
        """Accept switches until the port is closed."""
        while True:
            try:
                sock, address = self._listening.accept()
            except OSError as error:
                if self._listening.fileno() < 0:
                    return
                LOG.error("cannot accept a switch: %s", error)
                hub.sleep(_ACCEPT_AGAIN_S)
                continue
            hub.spawn(self._converse, sock, address)

    @fatal
    def _converse(self, sock: socket.socket, address: tuple[str, int]) -> None:
        self._newcomers[sock] = None
        if len(self._newcomers) > _NEWCOMERS:
            oldest = next(iter(self._newcomers))
            del self._newcomers[oldest]
            with contextlib.suppress(OSError):
                oldest.shutdown(socket.SHUT_RDWR)
        with contextlib.closing(sock):
            try:
                with contextlib.closing(self._channel(sock, address)) as channel:
                    channel.serve()
                if channel.refused is not None:
                    self._refusals.tell(address, channel.refused)
            except (HandshakeError, OSError) as error:
                self._refusals.tell(address, str(error))
            finally:
                self._newcomers.pop(sock, None)

    def _channel(self, sock: socket.socket, address: tuple[str, int]) -> Channel:
        """Raises HandshakeError, or OSError if the connection has gone."""
        credentials, secured = self._credentials, None
        if credentials is not None:
            secured = credentials.accept(sock)

        def admits(switch: int) -> bool:
            self._newcomers.pop(sock, None)
            return secured is None or self._admits(secured.names, switch, address)

        return Channel(
            sock, address, self._listener, self._admission(), self._rota, secured, admits
        )

    def _admits(self, names: Iterable[str], switch: int, address: tuple[str, int]) -> bool:
        """Whether a certificate with these names allows its owner to be this switch."""
        assert self._credentials is not None
        admitted = self._credentials.admits(names, switch)
        if not admitted:
            called = ", ".join(sorted(names)) or "nobody"
            reason = (
                f"its certificate names {called}, which may not be switch {datapath_id(switch)}"
            )
            self._refusals.tell(address, reason)
        return admitted
