"""HTTP: the API for other machines, and the metrics for Prometheus.

It is a process of its own beside the controller, which has started it, and asks it by the same RPC
as the command line: so whatever a thousand readers do, they never hold up regulation.
"""
