"""The soak of ``fountain atp-proxy``: unmodified programs over a link that loses packets, every
byte compared. ``soak`` runs it, ``verdict`` judges it."""
