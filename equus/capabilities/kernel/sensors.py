"""Perform host.kernel.sensors: temperatures, fans, voltages and currents that drivers show below /sys/class/hwmon."""

import re
from typing import Any

from equus.capabilities.calls import Context, Perform, positional
from equus.capabilities.kernel.entries import names_in, number_of, present, required_names
from equus.capabilities.time_limit import Pool, within

FOLDER = "/sys/class/hwmon"
# Seconds: some chips hang on slow buses, and a driver may wait for one that is gone.
SENSOR_SECONDS = 5.0
SENSORS = Pool("calls on sensors")
MOST_SENSORS = 1000
_INPUT = re.compile(r"(temp|fan|in|curr|power|humidity)(\d{1,4})_(input|average)")
# Kind, unit and divisor of each: Documentation/hwmon/sysfs-interface.rst of the kernel.
_KINDS = {
    "temp": ("temperature", "C", 1000.0), "fan": ("fan", "rpm", 1.0), "in": ("voltage", "V", 1000.0),
    "curr": ("current", "A", 1000.0), "power": ("power", "W", 1e6), "humidity": ("humidity", "%", 1000.0),
}  # fmt: skip
_LIMITS = {"max": "high", "crit": "critical", "min": "low", "lcrit": "critical_low"}
_ALARMS = ("alarm", "max_alarm", "min_alarm", "crit_alarm", "lcrit_alarm", "emergency_alarm", "cap_alarm")


def sensors(args: list[Any], policy: Any, context: Context) -> list[dict[str, Any]]:
    """Return the sensors of all chips. Raises CallFailed: "unsupported" if there is no chip, "timeout" if one hangs."""
    positional("host.kernel.sensors", args)
    chips = required_names(context, FOLDER, "sensors that the kernel knows")

    def read() -> list[dict[str, Any]]:
        """Read all chips."""
        found: list[dict[str, Any]] = []
        for chip in chips:
            found += _of_chip(f"{FOLDER}/{chip}", context)
        return found[:MOST_SENSORS]

    return within(SENSORS, context.seconds_left(SENSOR_SECONDS), FOLDER, context.entry, read)


def _of_chip(folder: str, context: Context) -> list[dict[str, Any]]:
    # Before Linux 3.15 the files are those of the device, beside the chip's own name.
    place = folder if context.read_line(f"{folder}/name") else f"{folder}/device"
    names = names_in(context, place)
    chip = context.read_line(f"{place}/name") or folder.rpartition("/")[2]
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        match = _INPUT.fullmatch(name)
        if match and match[1] + match[2] not in found:
            one = _sensor(place, match, set(names), context)
            if one is not None:
                found[match[1] + match[2]] = {"chip": chip} | one
    return [found[name] for name in sorted(found, key=_order)]


def _order(name: str) -> tuple[str, int]:
    kind = name.rstrip("0123456789")
    return kind, int(name[len(kind) :])


def _sensor(place: str, match: re.Match[str], names: set[str], context: Context) -> dict[str, Any] | None:
    """Return one sensor, or None if it shows no value: most often nothing is attached there."""
    kind, unit, divisor = _KINDS[match[1]]
    one = f"{place}/{match[1]}{match[2]}"

    def number(what: str) -> int | None:
        """Return the number of one file of this sensor."""
        return number_of(context, f"{one}_{what}") if f"{match[1]}{match[2]}_{what}" in names else None

    faulty, value = number("fault") == 1, number(match[3])
    if value is None and not faulty:
        return None
    limits = present({ours: number(theirs) for theirs, ours in _LIMITS.items()})
    answer = {
        "name": context.read_line(f"{one}_label") or match[1] + match[2],
        "kind": kind,
        "unit": unit,
        "alarm": any(number(alarm) == 1 for alarm in _ALARMS),
        "fault": faulty,
        **{limit: value / divisor for limit, value in limits.items()},
    }
    # A value beside a fault is made up.
    return answer if faulty or value is None else answer | {"value": value / divisor}


CALLS: dict[str, Perform] = {"kernel.sensors": sensors}
