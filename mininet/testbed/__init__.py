"""Weir's test bed: a data-centre corner in network namespaces, with a real switch and real TCP.

Everything lives in namespaces of its own (``sandbox``), so that whatever happens to the process
that asked for it, nothing stays behind on the machine.
"""
