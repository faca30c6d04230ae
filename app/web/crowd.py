"""All connections of a server: who may come in, and who has to go for that.

A connection is *quiet* while no request of its own is being answered: it has just been made,
its head has not ended yet, or its last answer is out. A client that opens many and sends
nothing loses the oldest of them to new connections. So connections that send nothing
keep no client out, wherever they come from; those with a request are bounded for each address.

Beyond the most that are served there is head room: there probes are answered, and who
has an admin key. One that is quiet there makes room there, and not among those served.

A person's bodies that are still arriving are bounded too, whatever addresses they come from. So
who sends many of them slowly holds that many connections, and no more.

An address is the other end's: an IPv4 address, or the first 64 bits of an IPv6 address.
Behind a proxy that is the proxy's, for all clients.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum, auto
from ipaddress import IPv6Address, ip_address
from typing import Protocol

_MOST_BODIES_EACH = 64
"""Bodies of one person that may arrive at once; fewer where few connections are served."""
_FEWEST_BODIES_EACH = 4
_SHARE_OF_BODIES = 4  # of all connections, one in this many
_NETWORK_BITS = 64
"""Of an IPv6 address; who has one has all of its network."""


class Guest(Protocol):
    """A connection."""

    def dismiss(self) -> None:
        """Close it now, for another's sake."""


class Entry(Enum):
    """How a connection comes in."""

    SERVED = auto()
    HEAD_ROOM = auto()
    REFUSED = auto()


class _Quiet:
    """Connections that are quiet, by address; each address has its oldest first."""

    def __init__(self) -> None:
        self._held: dict[str, dict[Guest, None]] = {}

    def add(self, guest: Guest, address: str) -> None:
        self._held.setdefault(address, {}).setdefault(guest)

    def discard(self, guest: Guest, address: str) -> None:
        if (held := self._held.get(address)) is not None:
            held.pop(guest, None)
            if not held:
                del self._held[address]

    def oldest(self, address: str) -> Guest | None:
        return next(iter(self._held.get(address, ())), None)

    def oldest_of_most(self) -> Guest | None:
        """Return the oldest of the address that has most of them."""
        if not self._held:
            return None
        return self.oldest(max(self._held, key=lambda each: len(self._held[each])))


class Crowd:
    """The connections that are open, by address.

    Parameters
    ----------
    most, most_each
        How many are served, and of one address.
    head_room
        How many more may come in.
    """

    def __init__(self, *, most: int, most_each: int, head_room: int) -> None:
        self._most = most
        self._most_each = most_each
        self._head_room = head_room
        self._addresses: dict[Guest, str] = {}
        self._beyond: set[Guest] = set()
        self._served: Counter[str] = Counter()
        self._quiet, self._quiet_beyond = _Quiet(), _Quiet()
        share = max(_FEWEST_BODIES_EACH, most // _SHARE_OF_BODIES)
        self.most_bodies_each = min(_MOST_BODIES_EACH, share)
        self._arriving: Counter[str] = Counter()

    def body_arrives(self, person: str) -> bool:
        """Count a body of a person's that is not complete; False where there are too many."""
        if self._arriving[person] >= self.most_bodies_each:
            return False
        self._arriving[person] += 1
        return True

    def body_ended(self, person: str) -> None:
        """Stop counting a body: it is complete, or its request has ended."""
        self._arriving[person] -= 1
        if not self._arriving[person]:
            del self._arriving[person]

    def enter(self, guest: Guest, host: str) -> Entry:
        """Let a connection in, which is quiet at first; another may be dismissed for it."""
        address = address_of(host)
        entry = Entry.SERVED
        if not self._is_room(address):
            entry = Entry.HEAD_ROOM if self._is_head_room() else Entry.REFUSED
        if entry is Entry.HEAD_ROOM:
            self._beyond.add(guest)
        elif entry is Entry.SERVED:
            self._served[address] += 1
        if entry is not Entry.REFUSED:
            self._addresses[guest] = address
            self.is_quiet(guest)
        return entry

    def _is_room(self, address: str) -> bool:
        """Return whether one more is served, which another may be dismissed for."""
        if self._served[address] >= self._most_each:
            return self._dismiss(self._quiet.oldest(address))
        if len(self._addresses) - len(self._beyond) < self._most:
            return True
        return self._dismiss(self._quiet.oldest_of_most())

    def _is_head_room(self) -> bool:
        if len(self._beyond) < self._head_room:
            return True
        return self._dismiss(self._quiet_beyond.oldest_of_most())

    def is_quiet(self, guest: Guest) -> None:
        """Hear that no request of a connection is being answered."""
        address = self._addresses.get(guest)
        if address is not None:
            self._quiet_like(guest).add(guest, address)

    def is_served(self, guest: Guest) -> None:
        """Hear that a request of a connection is being answered."""
        address = self._addresses.get(guest)
        if address is not None:
            self._quiet_like(guest).discard(guest, address)

    def leave(self, guest: Guest) -> None:
        """Hear that a connection is closed."""
        self.is_served(guest)
        address = self._addresses.pop(guest, None)
        if guest in self._beyond:
            self._beyond.discard(guest)
        elif address is not None:
            self._served[address] -= 1
            if not self._served[address]:
                del self._served[address]

    def _quiet_like(self, guest: Guest) -> _Quiet:
        return self._quiet_beyond if guest in self._beyond else self._quiet

    def _dismiss(self, guest: Guest | None) -> bool:
        """Dismiss a connection for another's sake, if there is one."""
        if guest is None:
            return False
        self.leave(guest)
        guest.dismiss()
        return True


def address_of(host: str) -> str:
    """Return what counts as one address: of IPv6, a network.

    >>> address_of("2001:db8::1") == address_of("2001:db8::2:3:4")
    True
    >>> address_of("::ffff:192.0.2.1")
    '192.0.2.1'
    """
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:  # a socket in the file system: everybody's
        return host
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(int(address) >> _NETWORK_BITS)
