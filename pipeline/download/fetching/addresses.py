"""Which IP addresses belong to the open internet."""

from __future__ import annotations

import ipaddress

# Addresses that count as global and lead inside all the same: cloud platforms' own services, and 6to4 relays.
_INWARD = tuple(ipaddress.ip_network(n) for n in ("168.63.129.16/32", "192.0.0.0/24", "192.88.99.0/24", "2002::/16"))
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")


def is_public(address: str) -> bool:
    """Whether an IP address is one of the open internet's: not private, loopback, link-local, multicast or reserved."""
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return is_public(str(ip.ipv4_mapped))
        if ip not in _GLOBAL_UNICAST:  # NAT64's prefix, which carries any IPv4 address, lies outside
            return False
    inward = any(ip in network for network in _INWARD)
    return ip.is_global and not (ip.is_multicast or ip.is_reserved or inward)
