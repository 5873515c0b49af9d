"""The processes that make traffic: each module here is a program, told what to do on its command
line; ``program`` starts them, ``programs`` are Debian's.

They share two conventions. Times are CLOCK_MONOTONIC in nanoseconds, which all namespaces of a
machine and the switch have in common. Bytes over time are counted in bins of the absolute clock,
so the series of two processes can be laid over each other without any agreement between them.
"""
