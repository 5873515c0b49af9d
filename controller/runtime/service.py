"""The running controller: makes and joins its parts, starts, reloads and stops them.

Ryu must have been prepared (launcher.py) before this is imported.
"""

import contextlib
import functools
import gc
import logging
import os
import socket
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from eventlet.hubs import get_hub
from ryu.base.app_manager import AppManager
from ryu.lib import hub

from controller import __version__
from controller.config import reload
from controller.config.errors import ConfigError
from controller.config.fields import Listen
from controller.config.files import read_secret
from controller.config.reading import load
from controller.config.schema import Config
from controller.config.sections.northbound import Northbound
from controller.ha.election import Election, Heartbeat
from controller.ha.heartbeats import Peers
from controller.ha.mastership import Mastership
from controller.northbound.server import ListenError, serving
from controller.ops import directories, logs
from controller.ops.background import Background
from controller.ops.event_log import EventLog
from controller.ops.failure import fatal
from controller.ops.systemd import Notifier
from controller.runtime import audit_log, bypassing, changing
from controller.runtime.api_process import ApiProcess
from controller.runtime.app import Weir
from controller.runtime.audit_log import AuditLog
from controller.runtime.changing import Changing
from controller.runtime.inspection import Inspection
from controller.runtime.loop_watch import watch_turns
from controller.southbound.switch.admission import Admission
from controller.southbound.transport.acceptor import Acceptor
from controller.southbound.transport.channel import Handshake
from controller.southbound.transport.rota import Rota
from controller.southbound.transport.tls import Credentials

LOG = logging.getLogger("weir")

_TURNS_PER_HEARTBEAT = 4
_HAND_OVER_S = 2.0
_HAND_OVER_LOOK_S = 0.01
_LAST_WORD_S = 0.05
_LOOK_S = 1.0
_NEW_GARBAGE_S, _ALL_GARBAGE_S = 0.05, 3600.0
_NEW = 1  # Generation of the collector, with those below it.


def configure_log(config: Config) -> None:
    """Log to standard error as the configuration says."""
    log = config.log
    logs.configure(sys.stderr, log.level, log.levels, log.format == "json", time.monotonic)


class Service:
    """Everything that is opened is closed with `resources`. `fail` is called if a handler fails."""

    def __init__(
        self,
        config: Config,
        file: Path | None,
        fail: Callable[[], object],
        resources: contextlib.ExitStack,
    ) -> None:
        """Raises OSError or ConfigError, with a text for people, if it cannot start."""
        self._file = file
        state = directories.state()
        self._wake = fail
        self.fail: Callable[[], object] = self._keep_cause
        self._cause = ""
        # It is closed last, so that it writes what the others say in the end.
        background = resources.enter_context(contextlib.closing(Background(self.fail)))
        audited = AuditLog(state / audit_log.FILE if state else None, time.time, do=background.do)
        self._changing = Changing(
            config, audited, time.time, state / changing.FILE if state else None, self._use
        )
        self._config = config = self._changing.present
        configure_log(config)
        self._notifier = Notifier()
        self._credentials = Credentials(config.tls) if config.tls.given else None
        self._api: ApiProcess | None = None
        self._northbound = resources.enter_context(contextlib.ExitStack())
        event_log = resources.enter_context(
            contextlib.closing(_event_log(config.log.events, background))
        )
        self._listening = resources.enter_context(_listen(config.openflow.listen, "openflow"))
        manager = AppManager.get_instance()
        self._handshake = manager.instantiate(Handshake)
        self._weir: Weir = manager.instantiate(
            Weir,
            config,
            event_log,
            clock_ns=time.monotonic_ns,
            wall_s=time.time,
            secret=os.urandom(16),
            fail=self.fail,
            kept=state / bypassing.FILE if state else None,
        )
        self._weir.bypassing.audited = audited.add_each
        self._mastership: Mastership | None = None
        if config.standby.peers:
            self._mastership = self._share(resources)
        self._inspection = Inspection(self._weir, self._mastership)
        main_loop = get_hub()
        turn_age_ns = watch_turns(main_loop, self._weir.tallies.loop_turns.observe)
        self._acceptor = Acceptor(
            self._listening,
            self._credentials if config.openflow.listen.transport == "ssl" else None,
            self._mastership or self._weir,
            lambda: Admission(self._weir.limits, time.monotonic_ns),
            Rota(turn_age_ns, functools.partial(main_loop.schedule_call_global, 0)),
            time.monotonic_ns,
            self.fail,
        )

    def start(self) -> None:
        self._handshake.start()
        self._weir.start()
        hub.spawn(self._acceptor.serve)
        hub.spawn(self._collect_garbage)
        hub.spawn(self._weir.tallies.watch_loop, time.monotonic_ns, hub.sleep)
        self._serve_northbound(self._config.northbound)
        if self._credentials is not None:
            hub.spawn(self._follow_files, self._credentials)
        if self._mastership is not None:
            self._peers.start(self._listening_to_peers, self._heard)
            hub.spawn(self._tend, self._mastership)
        scheme, listen = self._config.regulation.scheme.value, str(self._config.openflow.listen)
        LOG.info("weir-controller %s: scheme %s, listening on %s", __version__, scheme, listen)
        self._weir.record("start", {"version": __version__, "scheme": scheme, "listen": listen})
        self._notifier.ready()
        hub.spawn(self._notifier.watch)

    def reload(self) -> None:
        """Read the configuration and the TLS files again. Invalid ones change nothing."""
        self._notifier.reloading()
        try:
            base = load(self._file) if self._file else self._changing.base
            change = self._changing.merge(base, self._take)
        except (ConfigError, ListenError) as error:
            LOG.error("the configuration is not reloaded, nothing has changed: %s", error)
            self._changing.not_reloaded()
            self._weir.record("reload", {"error": str(error)})
        else:
            self._weir.reopen_event_log()
            try:
                self._adopt(change.config)
            except Exception:
                # It has been logged, and the controller ends.
                self._changing.not_reloaded(failed=True)
                return
            self._changing.reloaded(base, change)
            LOG.info("configuration reloaded; changed: %s", ", ".join(change.changed) or "nothing")
            for key in change.kept:
                LOG.warning(
                    "%s cannot be changed while the controller runs; its former value stays in use "
                    "until a restart",
                    key,
                )
            self._weir.record("reload", {"changed": change.changed, "kept": change.kept})
        self._notifier.ready()

    def _use(self, config: Config) -> Config:
        """Put a configuration in force in which settings were changed; returns what is in force:
        what takes a restart is not."""
        self._adopt(reload.merge(self._config, config).config)
        return self._config

    def _adopt(self, config: Config) -> None:
        self._weir.reconfigure(config)
        self._config = config
        configure_log(config)
        if self._api is not None:
            self._api.log_as(config.log)

    def stop(self, reason: str) -> None:
        self._notifier.stopping()
        mastership = self._mastership
        if mastership is not None and mastership.hand_over():
            end_s = time.monotonic() + _HAND_OVER_S
            while mastership.election.master and time.monotonic() < end_s:
                hub.sleep(_HAND_OVER_LOOK_S)
        LOG.info("ending on %s; switches go on forwarding", reason)
        self._weir.record("stop", {"reason": reason})

    def failed(self) -> None:
        """A handler has failed: let a standby take over without waiting for the timeout."""
        self._notifier.stopping()
        if self._mastership is not None and self._mastership.hand_over():
            hub.sleep(_LAST_WORD_S)
        self._weir.record("stop", {"reason": "failure", "cause": self._cause})

    def _keep_cause(self) -> None:
        self._cause = self._cause or traceback.format_exc()
        self._wake()

    def _serve_northbound(self, section: Northbound) -> None:
        """Raises ListenError."""
        self._northbound.close()
        api = self._api = None
        if section.metrics is not None or section.api is not None:
            api = self._api = self._northbound.enter_context(
                contextlib.closing(ApiProcess(section, self._config.log))
            )
        self._northbound.enter_context(
            serving(
                self._inspection,
                self._weir.broker,
                self._weir.bypassing,
                self._changing,
                time.monotonic_ns,
                section.socket,
                section.socket_must,
                api.hatch if api else None,
            )
        )
        if api is not None:
            self._northbound.callback(api.stop)
            hub.spawn(api.run, hub.sleep)

    def _take(self, config: Config) -> None:
        """Apply the parts of a configuration that may fail. If they do, raises ConfigError or
        ListenError and restores what was in use."""
        moves = config.northbound != self._config.northbound
        try:
            if moves:
                self._serve_northbound(config.northbound)
            if self._credentials is not None:
                self._credentials.follow(config.tls)
        except (ConfigError, ListenError):
            if moves:
                self._serve_northbound(self._config.northbound)
            raise

    def _share(self, resources: contextlib.ExitStack) -> Mastership:
        """Share the switches with other controllers."""
        section = self._config.standby
        assert section.name is not None and section.listen is not None
        secret = read_secret(section.secret)
        self._listening_to_peers = resources.enter_context(_listen(section.listen, "standby"))
        election = Election(
            section.name, section.priority, section.peers, section.timeout, time.monotonic_ns()
        )
        self._peers = Peers(
            section,
            secret,
            self._credentials if section.listen.transport == "ssl" else None,
            lambda peer, brief: election.heartbeat._replace(
                shared=self._weir.bypassing.shared(peer, brief)
            ),
            time.monotonic_ns,
            self.fail,
        )
        self._weir.bypassing.changed = self._peers.beat_now
        return Mastership(
            election,
            self._weir,
            self._weir.forget,
            self._peers.beat_now,
            self._weir.record,
            section.heartbeat,
            time.monotonic_ns,
            self.fail,
        )

    def _heard(self, beat: Heartbeat) -> None:
        assert self._mastership is not None
        self._weir.bypassing.heard(beat.name, beat.shared)
        self._mastership.heard(beat)

    @fatal
    def _collect_garbage(self) -> None:
        """Hardly anything is garbage, and looking at a million connections takes long. So what is
        new is looked at, a little at a time, and all objects once in an hour.

        Left alone, the collector would wait until more objects have been made than freed, which is
        never true while connections come and go: then it looked at 30,000 at once.
        """
        gc.disable()
        whole_s = time.monotonic() + _ALL_GARBAGE_S
        while True:
            hub.sleep(_NEW_GARBAGE_S)
            gc.collect(_NEW)
            if time.monotonic() >= whole_s:
                gc.collect()
                whole_s = time.monotonic() + _ALL_GARBAGE_S

    @fatal
    def _follow_files(self, credentials: Credentials) -> None:
        """Use new TLS files as soon as they are there."""
        while True:
            hub.sleep(_LOOK_S)
            if credentials.changed():
                try:
                    credentials.reload()
                except ConfigError as error:
                    LOG.error("new TLS files are refused, the former ones stay in use: %s", error)
                else:
                    LOG.info("new TLS files are in use for new connections")

    @fatal
    def _tend(self, mastership: Mastership) -> None:
        period_s = self._config.standby.heartbeat / 1e9 / _TURNS_PER_HEARTBEAT
        while True:
            hub.sleep(period_s)
            mastership.tend()


def _event_log(path: str | None, background: Background) -> EventLog:
    """Raises OSError with what to do."""
    try:
        return EventLog(path, background.do, hub.spawn_after)
    except OSError as error:
        raise OSError(
            f"log.events: cannot write {path}: {error.strerror}; "
            "make its directory writable, or name another file"
        ) from error


def _listen(listen: Listen, section: str) -> socket.socket:
    """A listening socket. Not Eventlet's, which would share the port with another process."""
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    try:
        return socket.create_server((listen.host, listen.port), family=family, backlog=128)
    except OSError as error:
        raise OSError(
            f"cannot listen on {listen}: {error.strerror or error}; "
            f"set {section}.listen to another address, or end what listens there"
        ) from error
