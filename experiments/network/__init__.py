"""Networks and links beside those of the test bed: a bare bridge, long and lossy links, a way to
the controller's HTTP API, frames made and watched on the wire."""
