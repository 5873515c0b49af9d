"""Ordinary programs through a regulated fabric: does Weir harm traffic that it is not made for?

The programs (``traffic.programs``) are Debian's, unmodified, and run in the namespaces of a test
bed's hosts. Every workload (``matrix``) runs under the same controller without regulation
(``none``), with Weir's and with SDTCP's, in turns. ``turn`` runs one of these in a sandbox;
``figures`` computes figures of all turns, ``conclusion`` what they show together.
"""
