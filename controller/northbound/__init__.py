"""What operators see: it answers the local RPC. It reads, and decides nothing.

It knows neither core nor southbound, only the views that it is given.
"""
