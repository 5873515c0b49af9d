"""What TCP-ACC's layer does for TCP that loses packets, and what it costs: ``bench acc``."""
