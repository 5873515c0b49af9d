"""Chaos: random faults strike a running network, one after the other, and its state is checked.

Controllers and switches are killed, links flap, clocks jump, and peers send nonsense to the
controller, all drawn from one seed, while TCP runs between the hosts. ``state`` (what the switches
hold, what the controller knows, which connections the hosts have open) and ``vitals`` (memory,
threads, descriptors) check what must hold afterwards. tests/system/test_chaos.py drives it.
"""
