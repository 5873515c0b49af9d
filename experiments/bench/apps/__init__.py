"""Ordinary programs through a regulated fabric: does Weir harm what it is not made for?

Programs (``traffic.programs``) are Debian's, unmodified, and run in the namespaces of a test
bed's hosts. Every workload (``matrix``) runs under the same controller without regulation
(``none``), with Weir's and with SDTCP's, in turns. ``turn`` is one turn of one of these, in a
sandbox of its own; ``figures`` makes figures of all turns, and ``conclusion`` what follows from
all of them.
"""
