"""Weir's test bed: a data-centre corner in network namespaces, with a real switch and real TCP.

Everything lives in namespaces of its own (``sandbox``), so that whatever happens to the process
that asked for it, nothing stays behind on the machine.
"""

import contextlib
import logging

# Mininet has every logger that is made later be one of its own: with a level of its own, which
# loses Weir's lines, and a handler that ends no line. It may not be installed.
_LOGGER = logging.getLoggerClass()
with contextlib.suppress(ImportError):
    import mininet.log as _  # noqa: F401
logging.setLoggerClass(_LOGGER)
