"""Commands that ask the northbound of a controller that is none, without a socket."""

import json
from typing import Any

import pytest

from controller.cli.client import AskError, Client
from controller.northbound.dispatcher import Dispatcher
from controller.northbound.handlers import Handlers
from controller.northbound.scheduler import Scheduler
from controller.rpc import messages
from fake_source import Told


def stand_in(monkeypatch: pytest.MonkeyPatch) -> Told:
    """What the commands of this process are told from now on; `ada` gives them."""
    source = Told()
    scheduler = Scheduler(lambda: 0, lambda: None)
    handlers = Handlers(
        source, source, source, source.changing, scheduler.checkpoint, lambda _: None
    )
    dispatcher = Dispatcher(handlers, scheduler)

    def ask(_: Client, method: str, params: dict[str, object] | None = None) -> dict[str, Any]:
        answer = messages.Assembly()
        try:
            for written in dispatcher.answer(messages.request(method, params)):
                answer.take(written)
        except messages.CallError as error:
            raise AskError(error.detail) from None
        asked: dict[str, Any] = json.loads(answer.body)
        return asked

    monkeypatch.setattr(Client, "ask", ask)
    monkeypatch.setenv("SUDO_USER", "ada")
    return source
