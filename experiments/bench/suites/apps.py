"""Ordinary programs."""

from experiments.bench.apps import conclusion, matrix
from experiments.bench.suites import SUITES, Conclusion, Group, Suite

_ABOUT = f"""\
ordinary programs through a regulated fabric: does it harm what it is not made for?

Debian's redis, memcached, nginx (wrk, ab, h2load, curl), PostgreSQL, iperf3, rsync over ssh
and nsd (dnsperf), unmodified, under the schemes none, weir and sdtcp in turns; on the star also
with a fair queue instead of Weir (drr) and below it (weir_drr), and under none once more (again),
whose ratios to none are the noise of the measurement. Each group is a network with its workloads:
{matrix.in_words()}

A figure is SETTING.WORKLOAD.SCHEME.NAME: requests_per_s or mbps, p50_ms, p99_ms, p999_ms with
..._least and ..._most; timeouts and drops; throughput_ratio, p50_ratio and p99_ratio to none.
Overall: min_throughput_ratio, max_p50_ratio and max_p99_ratio of weir, over the workloads with
which none has no retransmission timeouts; the others are in with_timeouts. Those of the others
begin with their name. Beside the JSON: apps.png, and a folder with the record of every turn.

examples:
  weir-experiment bench apps --quick --repeats 3
  weir-experiment bench apps --group star --schemes none,weir
  jq '{{min_throughput_ratio, max_p99_ratio}}' build/bench/apps.json"""


def _group(name: str, setting: matrix.Setting) -> Group:
    quick = {"quick": True} if setting.quick else None
    return Group(
        "experiments.bench.apps.setting",
        {"setting": name},
        setting.contenders,
        quick=quick,
        tabled=True,
    )


SUITES.add(
    Suite(
        "apps",
        _ABOUT,
        {name: _group(name, setting) for name, setting in matrix.SETTINGS.items()},
        Conclusion(conclusion.conclude, conclusion.show, conclusion.draw),
        sets_hosts=True,
    )
)
