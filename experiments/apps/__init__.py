"""Ordinary programs through a regulated fabric: does Weir harm what it is not made for?

Programs are Debian's, unmodified, and run in the namespaces of a test bed's hosts. Every workload
(``matrix``) runs under the same controller without regulation (``none``), with Weir's and with
SDTCP's, in turns. ``turn`` is one turn of one of these, in a world of its own; ``figures`` makes
figures of all turns, and ``conclusion`` what follows from all of them.

A program that is missing, fails, or does not do what it was asked for costs its workload, and is
reported with what it said on stderr. It never counts as zero and is never left out silently.
"""
