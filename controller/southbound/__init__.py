"""OpenFlow 1.3 and Weir's extension to it; nothing here takes a decision about traffic."""
