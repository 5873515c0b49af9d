"""Transfers in tasks of asyncio."""

import asyncio
import contextlib
from typing import TypeVar

from weir_transport._native import Transfer

T = TypeVar("T")


async def finished(transfer: Transfer[T]) -> T:
    """Wait until a transfer has ended, and give it up if the task is cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        changed = asyncio.Event()

        def wake(changed: asyncio.Event = changed) -> None:
            # A loop that is closed has no task that waits.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(changed.set)

        if transfer._poll(wake):
            return transfer._result()
        try:
            await changed.wait()
        except asyncio.CancelledError:
            transfer.cancel()
            raise
