//! Which packets take the way through the device: those of TCP that this host itself sends, to addresses in a table of their own.
//!
//! The table's routes go away with the device, whatever becomes of the process; a rule without routes has no effect, and the next
//! process replaces it.

use std::io;
use std::net::IpAddr;
use std::process::{Command, Stdio};

use proto::acc::packet::Pair;

/// Where the rule and the routes are.
#[derive(Clone, Debug)]
pub struct Routing {
    /// The number of the table.
    pub table: u32,
    /// The rule's place among others: before the main table's (32766).
    pub preference: u32,
}

impl Default for Routing {
    fn default() -> Self {
        Routing { table: 4881, preference: 4881 }
    }
}

/// The routes through a device.
pub(crate) struct Routes {
    device: String,
    routing: Routing,
    families: Vec<&'static str>,
}

fn family(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "-4" } else { "-6" }
}

/// Runs `ip`, which has to succeed, and returns what it says.
fn ip(words: &[&str]) -> io::Result<String> {
    let run = Command::new("ip").args(words).stdin(Stdio::null()).output();
    let output = run.map_err(|e| io::Error::new(e.kind(), format!("ip: {e}; install iproute2")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("ip {}: {}", words.join(" "), said.trim())))
}

/// Sets a device up that is a port of a switch: the host itself has nothing to say there.
pub(crate) fn set_up_port(device: &str, mtu: usize) -> io::Result<()> {
    ip(&["link", "set", "dev", device, "addrgenmode", "none", "mtu", &mtu.to_string(), "up"]).map(drop)
}

impl Routes {
    /// Sets the device up, and the rule.
    pub(crate) fn set_up(device: &str, mtu: usize, routing: &Routing, ipv6: bool) -> io::Result<Self> {
        let families = if ipv6 { vec!["-4", "-6"] } else { vec!["-4"] };
        let routes = Routes { device: device.to_owned(), routing: routing.clone(), families };
        ip(&["link", "set", "dev", device, "mtu", &mtu.to_string(), "up"])?;
        // What comes from a peer comes by another device than what goes to it would without the rule.
        let filter = format!("/proc/sys/net/ipv4/conf/{device}/rp_filter");
        std::fs::write(&filter, "0").map_err(|e| io::Error::new(e.kind(), format!("{filter}: {e}")))?;
        // Those of a process that was killed.
        routes.remove_rules();
        for family in &routes.families {
            let Routing { table, preference } = routes.routing;
            let (table, preference) = (table.to_string(), preference.to_string());
            let rule = ["rule", "add", "pref", &preference, "iif", "lo", "ipproto", "tcp", "lookup", &table];
            ip(&[&[*family], &rule[..]].concat())?;
        }
        Ok(routes)
    }

    /// Has packets to a peer take the way through the device, in pieces of `mtu` bytes at most. What the operator has set for the old way, such as a
    /// congestion control or an initial window, holds for this one, too.
    pub(crate) fn add(&self, pair: &Pair, mtu: usize) -> io::Result<()> {
        let (to, from) = (pair.remote.to_string(), pair.local.to_string());
        let (table, mtu) = (self.routing.table.to_string(), mtu.to_string());
        let route =
            ["route", "replace", &to, "dev", &self.device, "table", &table, "src", &from, "mtu", &mtu];
        let old = ip(&[family(pair.remote), "route", "get", &to, "fibmatch"]).unwrap_or_default();
        let base = [&[family(pair.remote)], &route[..]].concat();
        // Better without them than not at all.
        let with_settings = ip(&[&base[..], &settings(&old)].concat());
        with_settings.or_else(|_| ip(&base))?;
        if pair.remote.is_ipv6() {
            // Connections of IPv6 keep their old route when another table has a better one, until an address changes.
            for change in ["add", "del"] {
                ip(&["-6", "addr", change, "fe80::acc/128", "dev", &self.device, "nodad"])?;
            }
        }
        Ok(())
    }

    /// Has packets to a host take their old way.
    pub(crate) fn remove(&self, pair: &Pair) -> io::Result<()> {
        let (to, table) = (pair.remote.to_string(), self.routing.table.to_string());
        ip(&[family(pair.remote), "route", "del", &to, "dev", &self.device, "table", &table]).map(drop)
    }

    fn remove_rules(&self) {
        let Routing { table, preference } = self.routing;
        let (table, preference) = (table.to_string(), preference.to_string());
        for family in &self.families {
            // There is none mostly.
            while ip(&[family, "rule", "del", "pref", &preference, "lookup", &table]).is_ok() {}
        }
    }
}

/// What of a route, as `ip` shows it, is how TCP is to behave on it.
fn settings(shown: &str) -> Vec<&str> {
    const WITH_A_VALUE: [&str; 11] = [
        "congctl",
        "initcwnd",
        "initrwnd",
        "rto_min",
        "quickack",
        "window",
        "cwnd",
        "ssthresh",
        "rtt",
        "rttvar",
        "reordering",
    ];
    let mut words = shown.split_whitespace();
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        if WITH_A_VALUE.contains(&word) {
            found.push(word);
            let mut value = words.next();
            if value == Some("lock") {
                // What is locked overrides what a socket or the path says. `rto_min` always is, and `ip` shows what it does not take.
                found.extend(value.filter(|_| word != "rto_min"));
                value = words.next();
            }
            found.extend(value);
        } else if word == "features" {
            // "ecn", or others; they end where another setting begins, and are rare.
            found.extend([Some(word), words.next()].into_iter().flatten());
        }
    }
    found
}

impl Drop for Routes {
    fn drop(&mut self) {
        self.remove_rules();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_for_a_route_is_found_in_what_ip_shows() {
        let shown = "10.9.0.0/24 dev va proto kernel scope link src 10.9.0.1 mtu 9000 initcwnd 20 rto_min lock 50ms quickack 1 congctl lock cubic \n";
        let expected = ["initcwnd", "20", "rto_min", "50ms", "quickack", "1", "congctl", "lock", "cubic"];
        assert_eq!(settings(shown), expected);
        assert_eq!(settings("fd09::/64 dev va proto kernel metric 256 pref medium\n"), Vec::<&str>::new());
    }
}
