"""HTTP: the API for other machines, the dashboard's page, and the metrics for Prometheus.

The controller starts this package as a process of its own, which asks the controller by the same
RPC as the commands. So a thousand readers never hold up regulation.
"""
