"""The controller's side of the local RPC: what operators see. It reads, and decides nothing.

`views` has what there is to see, `handlers` the answer to each method, `metrics` those for
Prometheus; `dispatcher` and `scheduler` keep answers from delaying regulation, `server` has the
sockets. Nothing here knows the core or the southbound.
"""
