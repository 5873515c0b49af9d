"""The local RPC by which the commands and the HTTP API ask a running controller.

A request is a line of JSON, an answer is one or more lines. A connection carries one request after
the other. `messages` has the format, `methods` the methods and their parameters, `spans` what ports
have counted between two answers; `handover` passes connections from one process to another.
"""
