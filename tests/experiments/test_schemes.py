"""Schemes are in one registry, and whoever compares some names them by it."""

import pytest

from experiments import demo
from experiments.bench.apps import matrix
from experiments.bench.incast import plan
from experiments.bench.suites import SUITES
from experiments.bench.transport import dfcp, dfcp_sharing, fairness
from experiments.schemes import SCHEMES, Scheme, described, over_atp, over_lttp, over_tcp, scheme
from testbed import dctcp
from testbed.config import HostSettings
from testbed.registry import Registry


def named_elsewhere() -> set[str]:
    cells = [cell for cells in plan.GROUPS.values() for cell in cells()]
    groups = [group for suite in SUITES.values() for group in suite.groups.values()]
    return {
        *demo.SCHEMES,
        *plan.PAPER_SCHEMES,
        *(str(who["scheme"]) for cell in cells for who in cell.contenders.values()),
        *({name for group in groups for name in group.known} - set(matrix.CONTENDERS)),
        *matrix.CONTENDERS.values(),
        *(name for mix in fairness.MIXES.values() for name in (mix.scheme, mix.tcp)),
        *dfcp.TCPS,
        dfcp_sharing._TCP,
    }


def test_names_are_those_of_the_registry() -> None:
    assert named_elsewhere() <= set(SCHEMES)
    assert {*over_tcp(), *over_lttp(), *over_atp()} == set(SCHEMES)
    assert all(f"  {name} " in described(SCHEMES) for name in SCHEMES)


def test_dctcp_has_its_three_parts() -> None:
    chosen = scheme("dctcp")
    assert chosen.host == HostSettings(congestion_control=dctcp.NAME, ecn=True)
    assert chosen.queue["ecn-threshold"] == str(20 * 1514)


def test_what_a_scheme_sets_prevails() -> None:
    wanted = HostSettings(congestion_control="bbr", initcwnd=2, ecn=False)
    host = scheme("dctcp").host.over(wanted)
    assert host == HostSettings(congestion_control=dctcp.NAME, initcwnd=2, ecn=True)


def test_a_name_that_is_not_there_and_one_that_is_taken() -> None:
    with pytest.raises(ValueError, match=r"no scheme 'wier': there are atp, .*weir"):
        scheme("wier")
    mine: Registry[Scheme] = Registry("scheme", "experiments.network")
    mine.add(Scheme("one", "One", "the first"))
    with pytest.raises(ValueError, match="two things of the kind scheme are called 'one'"):
        mine.add(Scheme("one", "Another", "the second"))
