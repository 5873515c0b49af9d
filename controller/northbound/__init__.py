"""What operators see: metrics and the local API. It reads, and decides nothing.

It knows neither core nor southbound, only the views that it is given.
"""
