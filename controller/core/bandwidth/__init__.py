"""Available bandwidth: what links carry (`usage`), which flows have been announced (`announced`),
what each may send (`max_min`), put together in `estimation`."""
