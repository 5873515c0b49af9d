"""Changes settings at work, takes changes back, and keeps them over restarts.

The configuration file says what the settings are; what was changed at work goes over it, and stays
in force until it is taken back or the file says the same. It is written to `settings.json` in the
state directory. If that cannot be written, the change is in force all the same, and the answer says
that it is not kept. A file that cannot be used is logged, and the controller runs with what its
configuration says.

A change is put in force as a reload of the configuration is (`use`), and kept once it is in force.
If that fails, or the controller ends meanwhile, the former settings are in force after the restart,
and the audit log says what has failed. Each controller of a fabric has settings of its own.
"""

import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from controller.config import reload, settings
from controller.config.errors import ConfigError
from controller.config.reload import Change
from controller.config.schema import Config
from controller.config.settings import Setting
from controller.northbound.interfaces import ConflictError, FailedError, ValueRefusedError
from controller.northbound.views import (
    AuditEntryView,
    AuditPage,
    ChangeView,
    SettingsView,
    SettingView,
    StepView,
)
from controller.ops import directories
from controller.rpc.methods import EntryId
from controller.runtime.audit_log import AuditLog

LOG = logging.getLogger("weir.app")

FILE = "settings.json"

_RELOADED_BY = "signal SIGHUP"
_KEYS_TOLD = 20
_WHY_CHARS = 300


class _Changed(BaseModel):
    """The value of a setting that was changed at work, as text."""

    model_config = ConfigDict(extra="forbid")

    value: str
    by: str
    at_s: float


class _Latest(BaseModel):
    """The latest change, and what was changed at work `before` it, of the keys that it concerns."""

    model_config = ConfigDict(extra="forbid")

    id: EntryId
    at_s: float
    by: str
    changes: list[StepView]
    before: dict[str, _Changed | None]
    what: Literal["settings", "undo"] = "settings"
    detail: str = ""

    def entry(self) -> AuditEntryView:
        """As it stands in the audit log."""
        return {
            "id": self.id,
            "at_s": self.at_s,
            "by": self.by,
            "what": self.what,
            "changes": self.changes,
            "detail": self.detail,
        }


class _Taking(BaseModel):
    """A change that is being put in force: one that is still there after a restart never was, or
    was not kept."""

    model_config = ConfigDict(extra="forbid")

    what: Literal["settings", "undo"]
    by: str
    changes: list[StepView]

    def failed(self, why: str) -> str:
        """What the audit log says of it."""
        return f"failed, not in force: {_told(self.changes)}; {why}"


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    version: Annotated[int, Field(ge=0, lt=2**53)] = 0
    changed: dict[str, _Changed] = {}
    latest: _Latest | None = None
    taking: _Taking | None = None


class Changing:
    """`base` is the configuration as the file has it, `present` the one in force. `use` puts
    another one in force, as far as that can be done without a restart, and returns what is; if it
    raises an exception, the controller is about to end. `wall_s` is the time of day. Without a
    `path`, nothing is kept."""

    def __init__(
        self,
        base: Config,
        audit_log: AuditLog,
        wall_s: Callable[[], float],
        path: Path | None,
        use: Callable[[Config], Config],
    ) -> None:
        self._base = base
        self._audit_log = audit_log
        self._wall_s = wall_s
        self._path = path
        self._use = use
        self._changed: dict[str, _Changed] = {}
        self._latest: _Latest | None = None
        self._taking: _Taking | None = None
        self._version = 0
        self._restore()
        fit = _fitting(base, self._changed)
        fit.tell()
        self._changed, self._present = fit.changed, fit.config
        self._renew_version()
        if self._taking is not None:
            self._was_cut_off(self._taking)

    @property
    def base(self) -> Config:
        """What the file says."""
        return self._base

    @property
    def present(self) -> Config:
        """What is in force."""
        return self._present

    # What the northbound sees and does

    def settings(self) -> SettingsView:
        """All settings."""
        latest = self._latest
        return {
            "version": self._version,
            "settings": [self._view(setting) for setting in settings.SETTINGS.values()],
            "undoable": None
            if latest is None
            else {
                "id": latest.id,
                "at_s": latest.at_s,
                "by": latest.by,
                "changes": latest.changes,
            },
        }

    def change(
        self, version: int | None, changes: Mapping[str, str | None], only_try: bool, by: str
    ) -> ChangeView:
        """Give settings other values, or, with None, the file's. Raises ConflictError if this is
        not the present version or another change is on its way, ValueRefusedError, and
        FailedError."""
        if version is not None and version != self._version:
            raise ConflictError(
                f"the settings have changed meanwhile, their version is {self._version} now; "
                "read them again, then change them"
            )
        changed = dict(self._changed)
        unknown: list[str] = []
        for key, value in changes.items():
            if value is not None:
                changed[key] = _Changed(value=value, by=by, at_s=self._now_s())
                continue
            try:
                settings.require_live(key)
            except ConfigError as error:
                unknown += error.problems
            changed.pop(key, None)
        if unknown:
            raise ValueRefusedError("\n".join(unknown))
        return self._put(changed, "settings", by, only_try, asked=changes.keys())

    def undo(self, entry: str, by: str) -> ChangeView:
        """Take the latest change back. Raises ConflictError if it is another one or another change
        is on its way, and FailedError."""
        latest = self._latest
        if latest is None:
            raise ConflictError("there is no change to take back")
        if latest.id != entry:
            raise ConflictError(
                f"the latest change is {latest.id}, by {latest.by}; only that one can be taken "
                "back; read the settings again"
            )
        changed = dict(self._changed)
        for key, before in latest.before.items():
            if before is None:
                changed.pop(key, None)
            else:
                changed[key] = _Changed(value=before.value, by=by, at_s=self._now_s())
        return self._put(changed, "undo", by, detail=f"takes back {latest.id}")

    def audit(self, limit: int, before: str | None) -> AuditPage:
        """The latest entries of the audit log, or the latest before another one."""
        return self._audit_log.page(limit, before)

    # When the configuration file is read again

    def merge(self, base: Config, take: Callable[[Config], object]) -> Change:
        """What of this file can be in force, with what was changed at work and fits.

        `take` gets it to apply what may fail; settings may be changed while it does so, and those
        are in what is returned. To be followed by `reloaded` at once. Raises ConfigError, and what
        `take` raises.
        """
        take(reload.merge(self._present, _fitting(base, self._changed).config).config)
        return reload.merge(self._present, _fitting(base, self._changed).config)

    def reloaded(self, base: Config, change: Change) -> None:
        """This is what the file says from now on, and what of it is in force. What was changed at
        work and does not fit is logged."""
        former, self._present, self._base = self._present, change.config, base
        keys = [key for key in change.changed if key in settings.SETTINGS]
        others = [key for key in change.changed if key not in settings.SETTINGS]
        fit = _fitting(base, self._changed)
        fit.tell()
        taken_back = self._changed.keys() - fit.changed.keys()
        if self._latest and not taken_back.isdisjoint(self._latest.before):
            self._latest = None
        self._changed = fit.changed
        told = [f"also changed: {_listed(others)}"] if others else []
        told += [f"takes a restart: {_listed(change.kept)}"] if change.kept else []
        self._audit_log.add(
            "reload", _RELOADED_BY, _steps(former, self._present, keys), "; ".join(told)
        )
        self._renew_version()
        self._keep()

    def not_reloaded(self, failed: bool = False) -> None:
        """The file could not be used, and nothing has changed; or the core has `failed` with it,
        and the controller ends."""
        # What was wrong may name files, which are not shown to everybody.
        what = "failed, the controller ends" if failed else "refused, nothing has changed"
        detail = f"{what}; the log of the controller says why"
        self._audit_log.add("reload", _RELOADED_BY, detail=detail)

    def _put(
        self,
        changed: dict[str, _Changed],
        what: Literal["settings", "undo"],
        by: str,
        only_try: bool = False,
        detail: str = "",
        asked: Collection[str] = (),
    ) -> ChangeView:
        """Put these changes in force, in place of those that are; the keys `asked` have the values
        that somebody has just written. Raises ConflictError, ValueRefusedError and
        FailedError."""
        values = _values(changed)
        new = {key: values.pop(key) for key in asked if key in values}
        try:
            config = settings.overlay(self._base, new, kept=values)
        except ConfigError as error:
            raise ValueRefusedError("\n".join(error.problems)) from None
        changed = _needed(self._base, config, changed)
        touched = dict.fromkeys((*self._changed, *changed))
        keys = [key for key in touched if not settings.same(config, self._present, key)]
        # Only these have changed, whatever a restart would change.
        steps = _steps(self._present, config, keys)
        if only_try or not steps:
            return {
                "version": self._version,
                "changes": steps,
                "in_force": not only_try,
                "id": None,
                "kept": self._path is not None,
            }
        if self._taking is not None:
            raise ConflictError(
                f"a change by {self._taking.by} is being put in force; read the settings again, "
                "then change them"
            )
        self._present = self._taken(config, _Taking(what=what, by=by, changes=steps))
        entry = self._audit_log.add(what, by, steps, detail)
        self._latest = _Latest(
            id=entry["id"],
            at_s=entry["at_s"],
            by=by,
            changes=steps,
            before={key: self._changed.get(key) for key in keys},
            what=what,
            detail=detail,
        )
        self._changed = changed
        self._taking = None
        self._renew_version()
        LOG.warning("settings were changed by %s: %s", by, _told(steps))
        return {
            "version": self._version,
            "changes": steps,
            "in_force": True,
            "id": entry["id"],
            "kept": self._keep(),
        }

    def _taken(self, config: Config, taking: _Taking) -> Config:
        """Put this in force; returns what is. Raises FailedError."""
        self._taking = taking
        self._note()
        try:
            return self._use(config)
        except Exception as error:
            self._taking = None
            why = f"{type(error).__name__}: {error}"[:_WHY_CHARS]
            self._audit_log.add(taking.what, taking.by, detail=taking.failed(why))
            self._note()
            raise FailedError(
                f"the settings could not be put in force ({why}), and the controller ends; after "
                "its restart the former ones are in force. The log of the controller says more"
            ) from error

    def _was_cut_off(self, taking: _Taking) -> None:
        """The controller ended while this was put in force, or before it was kept."""
        LOG.error(
            "a change of settings by %s is not in force, the controller ended before it was kept: "
            "%s",
            *(taking.by, _told(taking.changes)),
        )
        why = "the controller ended before it was kept"
        self._audit_log.add(taking.what, taking.by, detail=taking.failed(why))
        self._taking = None
        self._note()

    def _view(self, setting: Setting) -> SettingView:
        changed = self._changed.get(setting.key)
        return {
            "key": setting.key,
            "section": setting.section,
            "value": settings.text(self._present, setting.key),
            "configured": settings.text(self._base, setting.key),
            "default": setting.default,
            "kind": setting.kind,
            "choices": None if setting.choices is None else list(setting.choices),
            "description": setting.description,
            "scope": "live" if setting.live else "restart",
            "changed": None if changed is None else {"by": changed.by, "at_s": changed.at_s},
        }

    def _now_s(self) -> float:
        return round(self._wall_s(), 3)

    def _renew_version(self) -> None:
        # The time, so that it is another one after a restart, too, whatever was kept.
        self._version = max(self._version + 1, int(self._wall_s() * 1000))

    def _restore(self) -> None:
        """Take up what was changed before the controller ended."""
        if self._path is None or not self._path.exists():
            return
        try:
            kept = _File.model_validate_json(self._path.read_bytes())
        except (OSError, ValidationError) as error:
            LOG.error(
                "what was changed at work is not known, the settings are those of the "
                "configuration file: cannot use %s: %s",
                *(self._path, error),
            )
            return
        self._version, self._changed, self._latest = kept.version, kept.changed, kept.latest
        self._taking = kept.taking
        if self._latest is not None:
            # It may not have been written when the controller ended.
            self._audit_log.restore(self._latest.entry())

    def _keep(self) -> bool:
        """Write what was changed at work to the file; returns whether it is there."""
        if self._path is None:
            return False
        try:
            self._write(self._path)
        except OSError as error:
            LOG.error(
                "settings that were changed are not kept: cannot write %s: %s",
                *(self._path, error.strerror),
            )
            return False
        return True

    def _note(self) -> None:
        """Write to the file whether a change is being put in force. Where it cannot be written, who
        keeps what comes of it says so."""
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._write(self._path)

    def _write(self, path: Path) -> None:
        """Raises OSError."""
        kept = _File(
            version=self._version,
            changed=self._changed,
            latest=self._latest,
            taking=self._taking,
        )
        directories.replace(path, kept.model_dump_json(indent=1) + "\n")


def _values(changed: Mapping[str, _Changed]) -> dict[str, str]:
    return {key: one.value for key, one in changed.items()}


class _Fit(NamedTuple):
    """What of some changes a configuration takes and does not say itself, both together, and what
    is wrong with the others. A later release, for example, may have other bounds."""

    changed: dict[str, _Changed]
    config: Config
    problems: list[ConfigError]

    def tell(self) -> None:
        for problem in self.problems:
            LOG.error("a setting that was changed at work cannot be used any more: %s", problem)


def _fitting(base: Config, changed: Mapping[str, _Changed]) -> _Fit:
    taken: dict[str, _Changed] = {}
    problems: list[ConfigError] = []
    config = base
    for key, one in changed.items():
        try:
            config = settings.overlay(base, {}, kept={**_values(taken), key: one.value})
        except ConfigError as error:
            problems.append(error)
        else:
            taken[key] = one
    return _Fit(_needed(base, config, taken), config, problems)


def _needed(base: Config, config: Config, changed: Mapping[str, _Changed]) -> dict[str, _Changed]:
    """The changes without those that say what the file says, written as the file would."""
    return {
        key: one.model_copy(update={"value": settings.text(config, key)})
        for key, one in changed.items()
        if not settings.same(config, base, key)
    }


def _steps(before: Config, after: Config, keys: Iterable[str]) -> list[StepView]:
    return [
        {"key": key, "from": settings.text(before, key), "to": settings.text(after, key)}
        for key in keys
    ]


def _told(steps: Iterable[StepView]) -> str:
    return ", ".join(f"{step['key']} from {step['from']} to {step['to']}" for step in steps)


def _listed(keys: list[str]) -> str:
    more = f" and {len(keys) - _KEYS_TOLD} more" if len(keys) > _KEYS_TOLD else ""
    return ", ".join(keys[:_KEYS_TOLD]) + more
