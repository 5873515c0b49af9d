"""Programs that others wrote, from Debian and unmodified: how each is started, asked, and read.

A program that is missing, fails, or does not do what it was asked for costs its workload, and is
reported with what it said on stderr. It never counts as zero and is never left out silently.
"""
