"""Available bandwidth: what links carry (`usage`), the announced flows (`announced`), and what each
of them may send (`max_min`), put together in `estimation`. What links lose (`losses`), and where
TCP is protected from that (`protection`)."""
