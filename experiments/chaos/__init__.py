"""Chaos: a running network is struck by one random fault after the other, then looked at.

Controllers and switches are killed, links flap, clocks jump, and peers talk nonsense to the
controller, all drawn from one seed, while TCP runs between the hosts. What must hold afterwards is
said by ``state`` (what the switches hold, what the controller knows, what the hosts have open) and
by ``vitals`` (memory, threads, descriptors). It is driven by tests/system/test_chaos.py.
"""
