"""Cron schedules: parsing, and the next time of a schedule.

Five fields (minute, hour, day of month, month, day of week) with lists, ranges, steps and names, or
one of `@hourly`, `@daily`, `@midnight`, `@weekly`, `@monthly`, `@yearly`, `@annually` and
`@every 90s`. If both day fields are restricted, a day that matches either of them is a match.
"""

from __future__ import annotations

import datetime
import re
import zoneinfo
from typing import NamedTuple

from kubesched.foundation.util.clock import SECOND
from kubesched.foundation.util.go_format import parse_duration

__all__ = ["Schedule", "parse_schedule"]

_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LIMITS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
_PART = re.compile(r"(\*|\?|[a-z0-9]+)(?:-([a-z0-9]+))?(?:/([0-9]+))?", re.ASCII)
_YEARS_AHEAD = 5


class Schedule(NamedTuple):
    """A parsed schedule. If `every_ns` is set, the other fields do not matter."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    any_weekday: bool
    every_ns: int
    zone: datetime.tzinfo

    def after(self, time_ns: int) -> int | None:
        """Return the first time after this one; None if there is none for five years."""
        if self.every_ns:
            return time_ns - time_ns % SECOND + self.every_ns
        moment = datetime.datetime.fromtimestamp(time_ns // SECOND, datetime.UTC)
        local = moment.astimezone(self.zone).replace(second=0) + datetime.timedelta(minutes=1)
        last = local.year + _YEARS_AHEAD
        while local.year <= last:
            if local.month not in self.months:
                first = local.replace(day=1, hour=0, minute=0)
                local = (first + datetime.timedelta(days=32)).replace(day=1)
            elif not self._has_day(local):
                local = local.replace(hour=0, minute=0) + datetime.timedelta(days=1)
            elif local.hour not in self.hours:
                local = local.replace(minute=0) + datetime.timedelta(hours=1)
            elif local.minute not in self.minutes:
                local += datetime.timedelta(minutes=1)
            else:
                return int(local.timestamp()) * SECOND
        return None

    def _has_day(self, moment: datetime.datetime) -> bool:
        in_month = moment.day in self.days
        in_week = moment.isoweekday() % 7 in self.weekdays
        if self.any_day or self.any_weekday:
            return in_month and in_week
        return in_month or in_week


def parse_schedule(text: str, zone: str | None = None) -> Schedule:
    """Parse a schedule.

    Raises:
        ValueError: the text is not a schedule, or the time zone is unknown.
    """
    where: datetime.tzinfo = datetime.UTC
    for prefix in ("TZ=", "CRON_TZ="):
        if text.startswith(prefix):
            zone, _, text = text.removeprefix(prefix).partition(" ")
    if zone:
        try:
            where = zoneinfo.ZoneInfo(zone)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError) as exc:
            raise ValueError(f"unknown time zone {zone}") from exc
    text = text.strip()
    if text.startswith("@every "):
        every_ns = parse_duration(text.removeprefix("@every ").strip())
        every_ns -= every_ns % SECOND
        none: frozenset[int] = frozenset()
        return Schedule(none, none, none, none, none, True, True, max(every_ns, SECOND), where)
    fields = _MACROS.get(text, text).lower().split()
    if len(fields) != len(_LIMITS):
        raise ValueError(
            f"expected exactly 5 fields, found {len(fields)}: [{' '.join(text.split())}]"
        )
    names: tuple[tuple[str, ...], ...] = ((), (), (), _MONTHS, _DAYS)
    minutes, hours, days, months, weekdays = (
        _field(field, *limits, named)
        for field, limits, named in zip(fields, _LIMITS, names, strict=True)
    )
    return Schedule(
        minutes,
        hours,
        days,
        months,
        weekdays,
        any_day=fields[2][0] in "*?",
        any_weekday=fields[4][0] in "*?",
        every_ns=0,
        zone=where,
    )


def _field(text: str, low: int, high: int, names: tuple[str, ...]) -> frozenset[int]:
    values: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(_unparsable(part))
        first, last, step = match.groups()
        if first in ("*", "?"):
            start, end = low, high
        else:
            start = _value(first, low, names)
            end = _value(last, low, names) if last else high if step else start
        if start < low:
            raise ValueError(f"beginning of range ({start}) below minimum ({low}): {part}")
        if end > high:
            raise ValueError(f"end of range ({end}) above maximum ({high}): {part}")
        if start > end:
            raise ValueError(f"beginning of range ({start}) beyond end of range ({end}): {part}")
        if step and not int(step):
            raise ValueError(f"step of range should be a positive number: {part}")
        values |= set(range(start, end + 1, int(step) if step else 1))
    return frozenset(values)


def _value(text: str, low: int, names: tuple[str, ...]) -> int:
    if text.isdecimal():
        return int(text)
    if text in names:
        return names.index(text) + low
    raise ValueError(_unparsable(text))


def _unparsable(text: str) -> str:
    return f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax'
