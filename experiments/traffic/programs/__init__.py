"""Programs of others, from Debian and unmodified: how each is started, asked, and read.

If a program is missing, fails, or does not do what it was asked for, its workload fails, and is
reported with the program's stderr. It never counts as zero and is never left out silently.
"""
