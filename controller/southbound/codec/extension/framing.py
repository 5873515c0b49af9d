"""What Weir's messages have in common: whose they are, their version, how they are checked."""

EXPERIMENTER = 0x00025D7C
VERSION = 2
ANY_PORT = 0xFFFFFFFF


class ExtensionError(ValueError):
    """A malformed message of the extension."""


def check_length(name: str, body: bytes, expected: int) -> None:
    if len(body) != expected:
        raise ExtensionError(f"{name} has {len(body)} bytes, not {expected}")


def check_entries(name: str, body: bytes, head: int, entry: int) -> None:
    if len(body) < head or (len(body) - head) % entry:
        raise ExtensionError(f"{name} has {len(body)} bytes, not {head} and a multiple of {entry}")


def check_version(name: str, version: int) -> None:
    if version != VERSION:
        raise ExtensionError(f"{name} is of version {version}; this controller speaks {VERSION}")


def check_zero(name: str, padding: bytes) -> None:
    if any(padding):
        raise ExtensionError(f"{name} has non-zero padding")
