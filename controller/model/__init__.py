"""Plain values that every part of the controller may name: keys of flows, ports, classes, what a
switch holds (entries) and what the core wants done (effects). No behaviour, no state, no I/O."""
