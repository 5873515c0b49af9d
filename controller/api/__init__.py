"""The HTTP API: what the local API tells and takes, for other machines.

It is a process of its own beside the controller, which has started it, and asks it over its Unix
socket like any other: so whatever a thousand readers do, they never hold up regulation.
"""
