"""`bench lttp` and `bench dfcp`: the coded transports beside TCP."""
