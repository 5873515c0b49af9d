"""Families of metrics, as text in Prometheus' exposition format.

Samples are made while they are written, with a checkpoint between them: so neither the making nor
the writing of a large family keeps the controller from its work for long.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from prometheus_client import Metric, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

# What exposition of text is told; choosing OpenMetrics instead is not offered.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# So long, it takes a fraction of a slice to write a piece as JSON.
_PIECE_CHARS = 16 * 1024

Labels = tuple[str, ...]
Row = tuple[Labels, float]


class Distribution(NamedTuple):
    """A histogram of one set of labels: `cumulative` are counts up to each bound, the last one of
    all."""

    labels: Labels
    bounds_s: Sequence[float]
    cumulative: Iterable[int]
    sum_s: float


class _Only(Collector):
    """A registry of one metric, so that the text of all need not be put together at once."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterator[Metric]:
        yield self._family


def pieces(families: Iterable[Metric]) -> Iterator[str]:
    """The text: whole lines of one metric after the other, no piece much longer than others."""
    for family in families:
        text = generate_latest(_Only(family)).decode()
        begin = 0
        while begin < len(text):
            end = text.find("\n", begin + _PIECE_CHARS) + 1 or len(text)
            yield text[begin:end]
            begin = end


class Families:
    """Makes families. `checkpoint` is called between samples, to let the controller go on."""

    def __init__(self, checkpoint: Callable[[], None]) -> None:
        self._checkpoint = checkpoint

    def gauge(self, name: str, text: str, labels: Labels, rows: Iterable[Row]) -> Metric:
        return self._family(GaugeMetricFamily(name, text, labels=labels), name, labels, rows)

    def counter(self, name: str, text: str, labels: Labels, rows: Iterable[Row]) -> Metric:
        family = CounterMetricFamily(name, text, labels=labels)
        return self._family(family, f"{name}_total", labels, rows)

    def _family(self, family: Metric, sample: str, labels: Labels, rows: Iterable[Row]) -> Metric:
        def samples() -> Iterator[Sample]:
            for values, number in rows:
                self._checkpoint()
                yield Sample(sample, dict(zip(labels, values, strict=True)), number)

        family.samples = samples()  # type: ignore[assignment]
        return family

    def histogram(
        self, name: str, text: str, labels: Labels, rows: Iterable[Distribution]
    ) -> Metric:
        def samples() -> Iterator[Sample]:
            for values, bounds_s, cumulative, sum_s in rows:
                named, number = dict(zip(labels, values, strict=True)), 0
                bounds = [*map(str, bounds_s), "+Inf"]
                for bound, number in zip(bounds, cumulative, strict=True):
                    self._checkpoint()
                    yield Sample(f"{name}_bucket", {**named, "le": bound}, number)
                yield Sample(f"{name}_count", named, number)
                yield Sample(f"{name}_sum", named, sum_s)

        family = HistogramMetricFamily(name, text, labels=labels)
        family.samples = samples()  # type: ignore[assignment]
        return family
