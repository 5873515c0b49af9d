"""Hosts: learnt, asked for and answered (`resolution`), reached (`forwarding`), and kept within
what they may ask of the fabric (`edge_filter`, `flooding`, `over_budget`)."""
