"""`bench switch`: the patched switch, beside stock Open vSwitch."""
