"""How long short flows take over Weir's transport, TCP and QUIC: ``bench short-flows``."""
