"""`bench incast`: barrier reads under every scheme, and under other conditions (`plan`)."""
