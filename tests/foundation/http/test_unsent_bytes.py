"""The total of unsent bytes: which clients are dropped, and when a response is refused."""

from __future__ import annotations

from kubesched.foundation.http.unsent_bytes import UnsentBytes


class Sending:
    """Responses that are being sent, by name."""

    def __init__(self) -> None:
        self.unsent = UnsentBytes(100, patience_seconds=1.0)
        self.dropped: list[str] = []

    def begin(self, name: str, size: int, now: float) -> bool:
        if not self.unsent.make_room(size, now):
            return False
        self.unsent.begin(name, size, now, lambda: self.dropped.append(name))
        return True


def test_a_response_counts_until_it_is_taken() -> None:
    sending = Sending()
    assert sending.begin("a", 60, 0)
    sending.unsent.taken("a", 20, 0)
    assert sending.unsent.total == 40
    sending.unsent.end("a")
    assert sending.unsent.total == 0


def test_a_single_response_may_exceed_the_limit() -> None:
    sending = Sending()
    assert sending.begin("a", 1000, 0)
    assert not sending.begin("b", 1, 0.5)
    assert sending.dropped == []


def test_the_client_stalled_for_longest_is_dropped_first() -> None:
    sending = Sending()
    for name, now in (("a", 0.0), ("b", 0.1), ("c", 0.2)):
        assert sending.begin(name, 30, now)
    sending.unsent.taken("a", 1, 1.9)
    assert sending.begin("d", 40, 2.0)
    assert sending.dropped == ["b"]
    assert sending.unsent.total == 29 + 30 + 40
    sending.unsent.end("b")  # its connection ends later, and nothing is counted twice
    assert sending.unsent.total == 99


def test_a_response_is_refused_while_the_others_make_progress() -> None:
    sending = Sending()
    assert sending.begin("a", 50, 0)
    assert sending.begin("b", 50, 0)
    assert not sending.begin("c", 50, 0.5)
    sending.unsent.taken("a", 50, 0.6)
    assert sending.begin("c", 50, 0.6)
    assert sending.dropped == []
