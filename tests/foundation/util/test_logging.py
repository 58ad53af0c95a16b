from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from kubesched.foundation.util.logging import LogMessage, format_field, get_logger, set_verbosity

log = get_logger("kubesched.tests")


def named(name: str, namespace: str = "") -> SimpleNamespace:
    return SimpleNamespace(metadata=SimpleNamespace(name=name, namespace=namespace))


FIELDS = {
    "a plain word stays bare": ("node-3", "node-3"),
    "a number is a number": (7, "7"),
    "a namespaced object is namespace/name": (named("web-1", "default"), "default/web-1"),
    "a cluster object is its name": (named("node-3"), "node-3"),
    "spaces are quoted": ("two words", '"two words"'),
    "nothing is shown as such": ("", '""'),
    "quotes are escaped": ('say "hi"', '"say \\"hi\\""'),
    "lines stay on one line": ("a\nb", '"a\\nb"'),
    "an error is its text": (OSError("no such file"), '"no such file"'),
    "an error without text is its type": (KeyError(), "KeyError"),
}


@pytest.mark.parametrize(("value", "want"), FIELDS.values(), ids=FIELDS)
def test_fields(value: object, want: str) -> None:
    assert format_field(value) == want


def test_a_line_is_the_message_then_the_fields(caplog: pytest.LogCaptureFixture) -> None:
    set_verbosity(0)
    log.info("Bound pod", pod=named("web-1", "default"), node="n")
    [record] = caplog.records
    assert record.getMessage() == "Bound pod pod=default/web-1 node=n"
    assert record.levelno == logging.INFO
    assert isinstance(record.msg, LogMessage)
    assert record.msg.message == "Bound pod"
    assert record.msg.fields["node"] == "n"
    assert record.filename == "test_logging.py"


def test_percent_signs_are_plain_text(caplog: pytest.LogCaptureFixture) -> None:
    log.warning("100% done", note="50%")
    assert caplog.records[0].getMessage() == "100% done note=50%"


def test_details_appear_at_their_verbosity(caplog: pytest.LogCaptureFixture) -> None:
    set_verbosity(3)
    log.detail(4, "hidden")
    log.detail(3, "shown")
    assert [record.getMessage() for record in caplog.records] == ["shown"]
    assert log.enabled(3)
    assert not log.enabled(4)


def test_fields_of_a_hidden_line_are_never_formatted() -> None:
    class Explosive:
        def __str__(self) -> str:
            raise AssertionError("formatted")

    set_verbosity(0)
    log.detail(5, "hidden", value=Explosive())


def test_an_error_shows_its_traceback_only_in_detail(caplog: pytest.LogCaptureFixture) -> None:
    set_verbosity(0)
    log.error("Failed", exc=OSError("gone"), pod=named("p", "ns"))
    set_verbosity(4)
    log.error("Failed", exc=OSError("gone"))
    plain, detailed = caplog.records
    assert plain.getMessage() == "Failed pod=ns/p err=gone"
    assert plain.exc_info is None
    assert detailed.exc_info is not None


def test_a_bug_always_shows_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    set_verbosity(0)
    log.exception("Handler failed", ValueError("bad"), kind="Pod")
    [record] = caplog.records
    assert record.getMessage() == "Handler failed kind=Pod err=bad"
    assert record.exc_info is not None
