"""Makes Ryu importable in the test process, as the launcher does, but without the monkey patch."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import eventlet.wsgi

    eventlet.wsgi.ALREADY_HANDLED = []
    import ryu.base.app_manager
    import ryu.lib.packet.packet  # noqa: F401
