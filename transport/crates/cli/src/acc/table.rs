//! Statistics for people.

use std::fmt::Write;

use serde_json::Value;

fn count(value: &Value) -> String {
    value.as_u64().map_or_else(|| "-".to_owned(), |count| count.to_string())
}

fn percent(value: &Value) -> String {
    value.as_f64().map_or_else(|| "-".to_owned(), |share| format!("{:.2} %", 100.0 * share))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

/// A table of peers, each with its flows.
pub(super) fn of(all: &Value) -> String {
    let mut out = format!("{}\n", text(&all["device"]));
    let empty = Vec::new();
    let peers = all["peers"].as_array().unwrap_or(&empty);
    let up = peers.iter().filter(|peer| peer["up"] == true);
    for peer in up {
        let rtt =
            peer["rtt_us"].as_f64().map_or_else(|| "-".to_owned(), |us| format!("{:.2} ms", us / 1000.0));
        let avoided = peer["timeouts_avoided"].as_f64().unwrap_or(0.0);
        let _ = writeln!(
            out,
            "{}: round trip {rtt}, loss {}\n  sent {} packets, {} coded at ends of windows and {} on losses, about {avoided:.1} timeouts avoided\n  \
             received {} packets and {} coded ones; {} were lost, {} of them recovered",
            text(&peer["peer"]),
            percent(&peer["loss"]),
            count(&peer["sent"]),
            count(&peer["coded_at_ends"]),
            count(&peer["coded_on_losses"]),
            count(&peer["came"]),
            count(&peer["coded_came"]),
            count(&peer["lost"]),
            count(&peer["recovered"]),
        );
        let flows = peer["flows"].as_array().unwrap_or(&empty);
        if !flows.is_empty() {
            let _ = writeln!(out, "  from   to        loss    w  c1  c2  coded  avoided");
        }
        for flow in flows {
            let _ = writeln!(
                out,
                "  {:<6} {:<6} {:>7} {:>4} {:>3} {:>3} {:>6} {:>8.1}",
                count(&flow["from"]),
                count(&flow["to"]),
                percent(&flow["loss"]),
                count(&flow["w"]),
                count(&flow["c1"]),
                count(&flow["c2"]),
                count(&flow["coded"]),
                flow["timeouts_avoided"].as_f64().unwrap_or(0.0),
            );
        }
    }
    let others = peers.iter().filter(|peer| peer["up"] != true).count();
    let _ = writeln!(out, "{others} hosts that were asked are no peers");
    let dropped = ["malformed", "unknown", "forged", "refused", "strayed", "undelivered", "unsent"];
    let dropped: Vec<String> = dropped.iter().map(|name| format!("{name} {}", count(&all[*name]))).collect();
    let _ = write!(out, "dropped: {}", dropped.join(", "));
    out
}
