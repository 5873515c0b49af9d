"""Settings that are changed on the page are in force at a real switch, by what it says itself."""

import json
import os
import re
import signal
import urllib.error
import urllib.request
from typing import Any

import pytest

from experiments.traffic.reader import IncastSpec
from looking import Looking
from real import SENDERS, Real, looked_at, until
from testbed.command import wait_until
from traffic import accounts_in_force, incast, is_regulated

HOLD, TTL, SYN = "regulation.max_hold", "regulation.window_ttl", "budgets.syn"
SCHEME = "regulation.scheme"
INCAST = IncastSpec(senders=SENDERS, rounds=10**6)
IN_FORCE_S = 5

pytestmark = [pytest.mark.browser, pytest.mark.netns, pytest.mark.switch, pytest.mark.slow]


class AtTheSwitch:
    """What the switch of the bottleneck says is in force."""

    def __init__(self, served: Real) -> None:
        self._bed = served.bed
        self._switch = served.bed.bottleneck_switch

    def ttl_ms(self) -> int:
        """The longest time that a register in force has left."""
        left = [int(one["ttl_ms"]) for one in self._switch.registers().values()]
        return max(left, default=0)

    def rates(self) -> set[int]:
        """The rates of its meters, in packets a second."""
        told = self._switch.ovs.ofctl("dump-meters", self._switch.name)
        return {int(rate) for rate in re.findall(r"rate=(\d+)", told)}

    def exempts(self, port: int) -> bool:
        """Whether it lets connections at a TCP port by before anything else is looked at."""
        flows = self._switch.ovs.ofctl("dump-flows", self._switch.name)
        return re.search(rf"tp_(src|dst)={port}\b", flows) is not None

    def overdue(self) -> int:
        """How many requests were held for as long as they may be."""
        return self._switch.accounts()[self._bed.roles.bottleneck]["requests.overdue"]


def row(page: Any, key: str) -> Any:
    return page.locator(f"[data-key='{key}']")


def change(page: Any, **values: str) -> None:
    """Change settings on the page: type, look at the difference, confirm."""
    for name, value in values.items():
        key = name.replace("__", ".")
        row(page, key).get_by_role("button", name=f"Edit {key}").click()
        row(page, key).get_by_role("textbox").fill(value)
    page.get_by_role("button", name="Review…").click()
    page.get_by_test_id("difference").wait_for()
    page.get_by_role("button", name="Put in force").click()
    page.get_by_test_id("done").wait_for()


def settings(looking: Looking[Real], name: str = "operator") -> Any:
    page = looking.sign_in(name)
    page.evaluate("location.hash = '#/settings'")
    page.get_by_test_id("settings").wait_for()
    return page


def said(served: Real) -> list[tuple[str, str]]:
    """Who did what, by the audit log."""
    return [(one["what"], one["by"]) for one in served.ask("/v1/audit")["entries"]]


def are_ready(served: Real) -> bool:
    """Whether the API answers, and all switches are ready."""
    try:
        ready: int = served.ask("/v1/overview")["switches"]["ready"]
    except urllib.error.URLError:
        return False
    return ready == len(served.bed.switches)


def test_a_change_is_in_force_at_the_switch_and_so_is_its_undo(expect: Any) -> None:
    with looked_at(regulation={"max_hold": "160 ms"}) as looking:
        page, served = settings(looking), looking.served
        switch = AtTheSwitch(served)
        with incast(served.bed, INCAST) as reads:
            wait_until(lambda: is_regulated(served.bed), timeout_s=20, what="there is an account")
            reads.require_progress(10, 30, "under regulation")
            assert switch.ttl_ms() <= 3000
            assert 20_000 in switch.rates()
            assert 12_345 not in switch.rates()
            before = switch.overdue()

            change(page, regulation__max_hold="1 ms", regulation__window_ttl="60 s")
            until(page, lambda: switch.ttl_ms() > 50_000, IN_FORCE_S, "windows stand for longer")
            until(page, lambda: switch.overdue() > before + 20, IN_FORCE_S, "requests are let go")
            change(page, budgets__syn="12345")
            until(page, lambda: 12_345 in switch.rates(), IN_FORCE_S, "the meter has its rate")

            latest = page.get_by_test_id("latest")
            expect(latest).to_contain_text(f"{SYN} from 20000 to 12345")
            latest.get_by_role("button", name="Undo").click()
            until(page, lambda: 12_345 not in switch.rates(), IN_FORCE_S, "it has the former")
            expect(row(page, SYN).locator(".now")).to_have_text("20000")
            for key in (HOLD, TTL):
                row(page, key).get_by_role("button", name="Use what the file says").click()
            page.get_by_role("button", name="Review…").click()
            page.get_by_role("button", name="Put in force").click()
            until(page, lambda: 0 < switch.ttl_ms() <= 3000, IN_FORCE_S, "they stand as before")
            # They are renewed in time from now on, and not when it was due by the former.
            page.wait_for_timeout(4000)
            assert is_regulated(served.bed)
            reads.require_progress(10, 30, "while it is changed")
            settled = switch.overdue()
            reads.require_progress(20, 30, "as before")
            assert switch.overdue() - settled < 20
        assert said(served) == [
            ("settings", "token operator"),
            ("undo", "token operator"),
            ("settings", "token operator"),
            ("settings", "token operator"),
        ]
        audit = page.get_by_test_id("audit").get_by_role("row")
        expect(audit.nth(4)).to_contain_text(f"{HOLD}: 160 ms → 1 ms")


def test_scheme_and_policies_are_in_force_at_the_switch(expect: Any) -> None:
    with looked_at() as looking:
        page, served = settings(looking), looking.served
        switch = AtTheSwitch(served)
        with incast(served.bed, INCAST) as reads:
            wait_until(lambda: is_regulated(served.bed), timeout_s=20, what="there is an account")
            regulated = accounts_in_force(served.bed)
            row(page, SCHEME).get_by_role("button", name="Edit").click()
            row(page, SCHEME).get_by_role("combobox").select_option("none")
            row(page, "policies").get_by_role("button", name="Edit").click()
            rules = "- {port: 4321, treatment: exempt}\n- {port: 4322, treatment: protect}"
            row(page, "policies").get_by_role("textbox").fill(rules)
            page.get_by_role("button", name="Review…").click()
            expect(page.get_by_test_id("difference").get_by_role("row")).to_have_count(3)
            assert not switch.exempts(4321)
            assert accounts_in_force(served.bed) == regulated
            page.get_by_role("button", name="Put in force").click()
            until(page, lambda: switch.exempts(4321), IN_FORCE_S, "connections are exempted")
            until(page, lambda: not accounts_in_force(served.bed), IN_FORCE_S, "none is regulated")
            assert not switch.exempts(4322)
            reads.require_progress(1, 30, "without regulation")
            page.get_by_test_id("latest").get_by_role("button", name="Undo").click()
            until(page, lambda: not switch.exempts(4321), IN_FORCE_S, "none is exempted")
            until(page, lambda: is_regulated(served.bed), IN_FORCE_S, "it is regulated again")
            reads.require_progress(10, 30, "under regulation again")
            assert accounts_in_force(served.bed) == regulated
        assert said(served) == [("undo", "token operator"), ("settings", "token operator")]


def test_what_was_changed_outlasts_the_controller(expect: Any) -> None:
    with looked_at() as looking:
        page, served = settings(looking), looking.served
        switch = AtTheSwitch(served)
        change(page, budgets__syn="12345")
        until(page, lambda: 12_345 in switch.rates(), IN_FORCE_S, "the meter has its rate")
        controller = served.bed.controller
        assert controller is not None
        os.kill(served.pid, signal.SIGKILL)
        controller.restart()
        wait_until(lambda: are_ready(served), timeout_s=30, what="the switches are ready again")
        expect(page.get_by_test_id("stale")).to_have_count(0)
        expect(row(page, SYN)).to_contain_text("changed by token operator")
        assert 12_345 in switch.rates()
        assert said(served) == [("settings", "token operator")]
        page.get_by_test_id("latest").get_by_role("button", name="Undo").click()
        until(page, lambda: 12_345 not in switch.rates(), IN_FORCE_S, "it has the former")


def test_a_viewer_changes_nothing_by_requests_of_his_own(expect: Any) -> None:
    with looked_at() as looking:
        page, served = settings(looking, "viewer"), looking.served
        switch = AtTheSwitch(served)
        expect(page.get_by_test_id("read-only")).to_be_visible()
        before, version = switch.rates(), served.ask("/v1/settings")["version"]
        requests: tuple[tuple[str, str, dict[str, Any]], ...] = (
            ("PATCH", "/v1/settings", {"version": version, "changes": {SYN: "12345"}}),
            ("POST", "/v1/settings/undo", {"id": "1"}),
            ("PUT", "/v1/bypasses", {}),
        )
        for method, path, body in requests:
            # With the session of the browser, as its page would ask, and with the token itself.
            headers = {"X-Weir-Page": "1", "Content-Type": "application/json"}
            asked = {"method": method, "body": json.dumps(body), "headers": headers}
            status = page.evaluate(
                "([path, asked]) => fetch(path, asked).then(answer => answer.status)",
                [path, asked],
            )
            assert status == by_token(served, method, path, body) == 403
        assert switch.rates() == before
        assert served.ask("/v1/settings")["version"] == version
        assert said(served) == []
        assert served.ask("/v1/bypasses")["bypasses"] == []
        assert accounts_in_force(served.bed)


def by_token(served: Real, method: str, path: str, body: dict[str, Any]) -> int:
    """The status of a viewer's request outside of the page."""
    request = urllib.request.Request(
        served.origin + path,
        json.dumps(body).encode(),
        {"Authorization": f"Bearer {served.token('viewer')}", "Content-Type": "application/json"},
        method=method,
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=10)
    return refused.value.code
