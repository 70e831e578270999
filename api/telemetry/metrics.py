"""The metrics of `GET /metrics` in OpenTelemetry's form: the same names, labels and values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import cast

from opentelemetry.sdk.metrics import export
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

_UNITS = {"seconds": "s", "bytes": "By"}
"""OpenTelemetry's name of a unit, by the last word of a metric's name."""
_CUMULATIVE = export.AggregationTemporality.CUMULATIVE
_UNKNOWN = cast(float, None)
"""The minimum and the maximum, which the format may leave out and the SDK's type may not."""
Labels = tuple[tuple[str, str], ...]


def metrics_data(
    families: Iterable[Metric],
    resource: Resource,
    scope: InstrumentationScope,
    began: int,
    now: int,
) -> export.MetricsData:
    """The values at `now` of metrics that count from `began`, both in nanoseconds. Values that are
    not known (NaN) are left out."""
    metrics = [
        export.Metric(each.name, each.documentation, _unit(each.name), data)
        for each in families
        if (data := _data(each, began, now)).data_points
    ]
    scopes = [export.ScopeMetrics(scope, metrics, "")]
    return export.MetricsData([export.ResourceMetrics(resource, scopes, "")])


def _unit(name: str) -> str:
    return _UNITS.get(name.rpartition("_")[2], "")


def _data(family: Metric, began: int, now: int) -> export.Sum | export.Gauge | export.Histogram:
    match family.type:
        case "histogram":
            return export.Histogram(list(_histograms(family, began, now)), _CUMULATIVE)
        case "counter":
            counts = [each for each in family.samples if each.name.endswith("_total")]
            return export.Sum(_numbers(counts, began, now), _CUMULATIVE, is_monotonic=True)
    return export.Gauge(_numbers(family.samples, began, now))


def _numbers(samples: Iterable[Sample], began: int, now: int) -> list[export.NumberDataPoint]:
    return [
        export.NumberDataPoint(each.labels, began, now, float(each.value))
        for each in samples
        if not math.isnan(each.value)
    ]


def _histograms(family: Metric, began: int, now: int) -> Iterator[export.HistogramDataPoint]:
    """A point for each combination of labels."""
    by_labels: dict[Labels, list[Sample]] = {}
    for sample in family.samples:
        labels = tuple(item for item in sample.labels.items() if item[0] != "le")
        by_labels.setdefault(labels, []).append(sample)
    for labels, samples in by_labels.items():
        buckets = [each for each in samples if each.name.endswith("_bucket")]
        sums = [int(each.value) for each in buckets]
        (total,) = (each.value for each in samples if each.name.endswith("_sum"))
        yield export.HistogramDataPoint(
            dict(labels),
            began,
            now,
            sums[-1],
            total,
            [upto - before for upto, before in zip(sums, [0, *sums], strict=False)],
            [float(each.labels["le"]) for each in buckets[:-1]],
            _UNKNOWN,
            _UNKNOWN,
        )
