"""`openflow`: where switches connect."""

from controller.config.fields import Listen, Listener, Section


class OpenFlow(Section):
    listen: Listener = Listen("ssl", "127.0.0.1", 6653)
