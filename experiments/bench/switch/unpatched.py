"""The peer: the same source of Open vSwitch, built with the same flags, without the series."""

import os
from pathlib import Path

from testbed.ovs import OvsError, find_prefix

UNPATCHED_VARIABLE = "WEIR_UNPATCHED_OVS_PREFIX"


def unpatched_prefix() -> Path:
    """Where it is. Raises OvsError if it was not said where."""
    given = os.environ.get(UNPATCHED_VARIABLE)
    if not given:
        raise OvsError(
            f"${UNPATCHED_VARIABLE} does not name the unpatched switch: "
            "ovs-patches/build --unpatched --prefix tells where it is"
        )
    return find_prefix(given)
