"""IP addresses and networks."""

from __future__ import annotations

from ipaddress import (
    IPv4Address,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_interface,
    ip_network,
)
from typing import ClassVar, Final

import msgspec

from kubesched.foundation.cel.language.cel_errors import EvaluationError
from kubesched.foundation.cel.language.declarations import Library, by_size
from kubesched.foundation.cel.language.expression_types import BOOL, INT, STRING, named

__all__ = ["CIDR", "IP", "NETWORK"]

NETWORK: Final = Library()
IP: Final = named("net.IP")
CIDR: Final = named("net.CIDR")
_ONCE: Final = by_size(0.1)
_LINK_LOCAL_MULTICAST: Final = (ip_network("224.0.0.0/24"), ip_network("ff02::/16"))


class Address(msgspec.Struct, frozen=True):
    """An address as a value of the language."""

    cel_type: ClassVar[str] = "net.IP"
    equals_own_type_only: ClassVar[bool] = True

    address: IPv4Address | IPv6Address


class Prefix(msgspec.Struct, frozen=True):
    """An address with the length of its network's part."""

    cel_type: ClassVar[str] = "net.CIDR"
    equals_own_type_only: ClassVar[bool] = True

    address: IPv4Address | IPv6Address
    length: int

    def contains(self, address: IPv4Address | IPv6Address) -> bool:
        """Whether an address has the same leading bits."""
        shift = self.address.max_prefixlen - self.length
        same_family = self.address.version == address.version
        return same_family and int(self.address) >> shift == int(address) >> shift


def _parse_address(text: str) -> IPv4Address | IPv6Address:
    if "%" in text:
        raise EvaluationError(f'IP address "{text}" with zone value is not allowed')
    try:
        address = ip_address(text)
    except ValueError:
        raise EvaluationError(
            f'IP Address "{text}" parse error during conversion from string: '
            f'ParseAddr("{text}"): unable to parse IP'
        ) from None
    if _is_mapped(address):
        raise EvaluationError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return address


def _is_mapped(address: IPv4Address | IPv6Address) -> bool:
    return isinstance(address, IPv6Address) and address in _MAPPED


_MAPPED: Final = IPv6Network("::ffff:0:0/96")


def _parse_prefix(text: str) -> Prefix:
    """An address and the number of bits, which is written without sign or leading zero."""
    network, slash, bits = text.partition("/")
    wrong = EvaluationError(
        "network address parse error during conversion from string: "
        "network address parse error during conversion from string: "
        f'netip.ParsePrefix("{text}"): invalid'
    )
    plain = bits.isascii() and bits.isdecimal() and (bits == "0" or bits[0] != "0")
    if not slash or not plain or len(bits) > 3 or "%" in network:
        raise wrong
    try:
        interface = ip_interface(text)
    except ValueError:
        raise wrong from None
    if _is_mapped(interface.ip):
        raise EvaluationError(
            "network address parse error during conversion from string: "
            f'IPv4-mapped IPv6 address "{text}" is not allowed'
        )
    return Prefix(interface.ip, int(bits))


@NETWORK.function("ip", STRING, result=IP, cost=_ONCE)
def _ip(text: str) -> Address:
    return Address(_parse_address(text))


@NETWORK.function("isIP", STRING, result=BOOL, cost=_ONCE)
def _is_ip(text: str) -> bool:
    try:
        _parse_address(text)
    except EvaluationError:
        return False
    return True


@NETWORK.function("ip.isCanonical", STRING, result=BOOL, cost=by_size(0.2))
def _is_canonical(text: str) -> bool:
    return str(_parse_address(text)) == text


@NETWORK.function("string", IP, result=STRING)
def _address_text(value: Address) -> str:
    return str(value.address)


@NETWORK.method("family", IP, result=INT)
def _family(value: Address) -> int:
    return value.address.version


@NETWORK.method("isUnspecified", IP, result=BOOL)
def _is_unspecified(value: Address) -> bool:
    return value.address.is_unspecified


@NETWORK.method("isLoopback", IP, result=BOOL)
def _is_loopback(value: Address) -> bool:
    return value.address.is_loopback


@NETWORK.method("isLinkLocalMulticast", IP, result=BOOL)
def _is_link_local_multicast(value: Address) -> bool:
    return any(value.address in network for network in _LINK_LOCAL_MULTICAST)


@NETWORK.method("isLinkLocalUnicast", IP, result=BOOL)
def _is_link_local_unicast(value: Address) -> bool:
    return value.address.is_link_local


@NETWORK.method("isGlobalUnicast", IP, result=BOOL)
def _is_global_unicast(value: Address) -> bool:
    address = value.address
    return not (
        address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
        or address == IPv4Address("255.255.255.255")
    )


@NETWORK.function("cidr", STRING, result=CIDR, cost=_ONCE)
def _cidr(text: str) -> Prefix:
    return _parse_prefix(text)


@NETWORK.function("isCIDR", STRING, result=BOOL, cost=_ONCE)
def _is_cidr(text: str) -> bool:
    try:
        _parse_prefix(text)
    except EvaluationError:
        return False
    return True


@NETWORK.function("string", CIDR, result=STRING)
def _prefix_text(value: Prefix) -> str:
    return f"{value.address}/{value.length}"


@NETWORK.method("containsIP", CIDR, STRING, result=BOOL, cost=by_size(0.1, 1))
def _contains_text(value: Prefix, text: str) -> bool:
    return value.contains(_parse_address(text))


@NETWORK.method("containsIP", CIDR, IP, result=BOOL)
def _contains_address(value: Prefix, other: Address) -> bool:
    return value.contains(other.address)


@NETWORK.method("containsCIDR", CIDR, STRING, result=BOOL, cost=by_size(0.1, 1))
def _contains_prefix_text(value: Prefix, text: str) -> bool:
    return _contains_prefix(value, _parse_prefix(text))


@NETWORK.method("containsCIDR", CIDR, CIDR, result=BOOL)
def _contains_prefix(value: Prefix, other: Prefix) -> bool:
    return value.contains(other.address) and value.length <= other.length


@NETWORK.method("ip", CIDR, result=IP)
def _prefix_address(value: Prefix) -> Address:
    return Address(value.address)


@NETWORK.method("prefixLength", CIDR, result=INT)
def _prefix_length(value: Prefix) -> int:
    return value.length


@NETWORK.method("masked", CIDR, result=CIDR)
def _masked(value: Prefix) -> Prefix:
    network = ip_network(f"{value.address}/{value.length}", strict=False)
    return Prefix(network.network_address, value.length)
