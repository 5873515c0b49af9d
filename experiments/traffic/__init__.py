"""The processes that make traffic. Each module is a program with a command line; ``program`` starts
them, ``programs`` has those of Debian.

Two conventions: Times are CLOCK_MONOTONIC in nanoseconds, which all namespaces of a
machine and the switch have in common. Bytes over time are counted in bins of the absolute clock,
so the series of two processes can be laid over each other without any agreement between them.
"""
