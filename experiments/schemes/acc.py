"""TCP-ACC: a layer beneath TCP that codes against losses; hosts run ``fountain acc up``."""

from experiments.schemes import SCHEMES, Scheme

SCHEMES.add(
    Scheme(
        "acc",
        "TCP-ACC",
        "TCP over TCP-ACC's layer at all hosts",
        acc="acc",
    )
)
