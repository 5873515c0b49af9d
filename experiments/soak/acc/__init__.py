"""The soak of ``fountain acc up`` at two hosts: unmodified programs over a link that loses packets.
The layer comes and goes beneath their TCP; every byte is compared, and no connection may stand
still. ``soak`` runs it, ``verdict`` judges it."""
