"""Plain values that every part of the controller may name: keys of flows, ports, classes, what a
switch holds (entries) or sends up, and what the core wants done (effects). No I/O, and no state but
in `TokenBucket`, by which several parts limit what they take."""
