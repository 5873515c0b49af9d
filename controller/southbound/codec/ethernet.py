"""What all modules that read or write frames share."""

ETH_ARP = 0x0806
ETH_IPV4 = 0x0800
ETH_IPV6 = 0x86DD
ETH_LLDP = 0x88CC


class MalformedFrameError(ValueError):
    """A frame that is not valid by its own fields."""
