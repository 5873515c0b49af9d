"""The processes that make traffic. Each module is a program with a command line; ``program`` starts
them, ``programs`` has those of Debian.

Two conventions: times are CLOCK_MONOTONIC in nanoseconds, which all namespaces of a machine and the
switch share. Bytes over time are counted in bins of that clock, so the series of two processes fit
together without any agreement between them.
"""
