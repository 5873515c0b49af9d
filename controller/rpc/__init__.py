"""The local RPC by which the command line and the HTTP API ask a running controller.

A request is a line of JSON, an answer one or more of them; a connection carries requests one after
the other. `messages` says how they are written, `methods` what may be asked.
"""
