"""Format a result as a Nagios plugin's output: state and summary, a bar, performance data, long output. Pure."""

from equus_protocol.results import STATUS_WORDS, Metric, ResultDocument

# The units of the plugin guidelines; others are left out, since monitoring cores drop data with unknown units.
_UNITS = frozenset(("s", "%", "B", "c"))


def plugin_output(result: ResultDocument) -> str:
    """Return all lines, without a line end after the last one."""
    first = f"{STATUS_WORDS[result.status].upper()}: {_one_line(result.summary) or 'no summary'}"
    figures = " ".join(map(perfdata, result.metrics))
    lines = [f"{first} | {figures}" if figures else first]
    if result.output:
        # A bar would begin performance data here as well.
        lines.append(result.output.replace("|", "¦").rstrip("\n"))
    return "\n".join(lines)


def _one_line(text: str) -> str:
    return " ".join(text.replace("|", "¦").split())


def perfdata(metric: Metric) -> str:
    """Return `'label'=value[unit];[warn];[crit];[min];[max]`; the values of labels become part of the label."""
    label = " ".join([metric.name, *metric.labels.values()]).replace("=", "_").replace("\n", " ").replace("'", "''")
    quoted = f"'{label}'" if set(label) & set(" '|;") else label
    value = "U" if metric.value is None else _number(metric.value)
    unit = metric.unit if metric.unit in _UNITS and metric.value is not None else ""
    limits = [
        metric.warn or "",
        metric.crit or "",
        *("" if one is None else _number(one) for one in (metric.min, metric.max)),
    ]
    return f"{quoted}={value}{unit};{';'.join(limits)}".rstrip(";")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else f"{value:.12g}"
