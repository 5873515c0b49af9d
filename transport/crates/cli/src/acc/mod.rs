//! `fountain acc`: TCP-ACC's layer on this host, or on a link of a switch.

mod control;
mod key;
mod lossy;
mod metrics;
mod table;

use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use proto::acc::redundancy::Policy;
use proto::acc::{Config, Event, Strategy};
use serde_json::{Value, json};
use udp::acc::{News, Options, Serves, Statistics};
use udp::tun::Routing;

use crate::Failure;
use crate::args::{Acc, AccCommand, AccLayer, AccLink, AccStats, AccUp, Coding};
use crate::console::{complain, print, say};
use crate::retry::on_stop;
use crate::serve::seconds;

/// GIP sends the last packet of a unit so many times more at most.
const COPIES: u32 = 3;

pub(crate) fn run(args: &Acc) -> Result<ExitCode, Failure> {
    match &args.command {
        AccCommand::Up(args) => up(args),
        AccCommand::Link(args) => link(args),
        AccCommand::Stats(args) => stats(args),
        AccCommand::Key(args) => key::make(&args.file).map(|()| ExitCode::SUCCESS),
    }
}

fn strategy(args: &AccLayer) -> Result<Strategy, Failure> {
    let number = |option: &str, value: f64| {
        let good = value.is_finite() && value >= 0.0;
        if good { Ok(value) } else { Err(Failure::usage(format!("{option}: a number that is not negative"))) }
    };
    let usual = if args.coding == Coding::Paper { Policy::PAPER } else { Policy::WEIR };
    let policy = Policy {
        timeout_cost: number("--timeout-cost", args.timeout_cost)?,
        free_packets: number("--free-packets", args.free_packets.unwrap_or(usual.free_packets))?,
        free_share: number("--free-share", args.free_share.unwrap_or(usual.free_share))?,
        least_queue: number("--least-queue", args.least_queue.unwrap_or(usual.least_queue))?,
        longest_queue: number("--longest-queue", args.longest_queue)?,
        most_packets: args.most_coded,
        ..usual
    };
    Ok(match args.coding {
        Coding::Acc | Coding::Paper => Strategy::Complementary(policy),
        Coding::Off => Strategy::Off,
        Coding::Gip => Strategy::Important(COPIES),
        Coding::Ccr => Strategy::Corrective,
    })
}

fn up(args: &AccUp) -> Result<ExitCode, Failure> {
    let serves = Serves::Host {
        peers: args.peers.clone(),
        may_be_peers: args.to.clone(),
        routing: Routing { table: args.table, preference: args.table },
        chosen: args.losses_from.is_some(),
    };
    let lossy = lossy::Lossy::of(args)?;
    let what = match lossy {
        None => "TCP to hosts that run the layer, too, goes through it",
        Some(_) => "TCP to hosts that run the layer, too, goes through it where the controller sees losses",
    };
    serve(serves, args.mtu, &args.layer, what, lossy)
}

fn link(args: &AccLink) -> Result<ExitCode, Failure> {
    let what = format!("a link to {}, once that is there, for a switch", args.other);
    serve(Serves::Port { other: args.other }, args.mtu, &args.layer, &what, None)
}

/// Runs the layer until it is interrupted. `what` says what its device is for, and `lossy` which peers it is used for.
fn serve(
    serves: Serves,
    mtu: u16,
    args: &AccLayer,
    what: &str,
    lossy: Option<lossy::Lossy>,
) -> Result<ExitCode, Failure> {
    let patience = Duration::try_from_secs_f64(args.patience / 1000.0)
        .map_err(|e| Failure::usage(format!("--patience: {e}")))?;
    let mut layer = Config::new(key::read(&args.key)?, strategy(args)?);
    (layer.most_patience, layer.max_held_bytes, layer.clear) = (patience, args.memory, args.clear);
    let every = args.stats.map(|every| seconds("--stats", every)).transpose()?;
    let options = Options { layer, port: args.port, device: args.device.clone(), mtu: mtu.into(), serves };
    let acc = udp::acc::Acc::start(options).map_err(Failure::new)?;
    let handle = acc.handle();
    let stop = acc.handle();
    on_stop(move || stop.stop())?;
    let control = control::serve(args.control.as_deref(), acc.device(), acc.handle())?;
    let metrics = args.metrics.map(|address| metrics::serve(address, acc.handle())).transpose()?;
    if let Some(lossy) = lossy {
        let (handle, json) = (acc.handle(), args.json);
        std::thread::spawn(move || lossy.follow(&handle, json));
    }
    begun(args, what, acc.device(), control.path(), metrics);
    if let Some(every) = every {
        let (handle, json) = (handle.clone(), args.json);
        std::thread::spawn(move || {
            while let Some(all) = handle.statistics() {
                show(&all, json);
                std::thread::sleep(every);
            }
        });
    }
    while let Some(news) = acc.next() {
        tell(&news, args.json);
    }
    acc.join().map_err(Failure::new)?;
    if args.json {
        say(&json!({ "event": "stopped" }));
    }
    Ok(ExitCode::SUCCESS)
}

fn begun(args: &AccLayer, what: &str, device: &str, control: &Path, metrics: Option<SocketAddr>) {
    if args.json {
        say(&json!({
            "event": "up",
            "device": device,
            "port": args.port,
            "control": control.display().to_string(),
            "metrics": metrics.map(|address| format!("http://{address}/metrics")),
        }));
        return;
    }
    print(format_args!("{device} is up: {what}"));
    if let Some(address) = metrics {
        print(format_args!("metrics on http://{address}/metrics"));
    }
}

fn tell(news: &News, json: bool) {
    match (news, json) {
        (News::Peer(Event::Up(pair)), true) => {
            say(&json!({ "event": "peer", "peer": pair.remote, "local": pair.local }));
        }
        (News::Peer(Event::Up(pair)), false) => print(format_args!("{} is a peer", pair.remote)),
        (News::Peer(Event::Down(pair, why)), true) => {
            let (peer, local, why) = (pair.remote, pair.local, why.to_string());
            say(&json!({ "event": "gone", "peer": peer, "local": local, "why": why }));
        }
        (News::Peer(Event::Down(pair, why)), false) => {
            print(format_args!("{} is no peer any more: {why}", pair.remote));
        }
        (News::Trouble(what), _) => complain(what),
    }
}

fn show(all: &Statistics, json: bool) {
    if json { say(&described("stats", all)) } else { print(table::of(&as_json(all))) }
}

fn stats(args: &AccStats) -> Result<ExitCode, Failure> {
    let all = control::ask(args.control.as_deref(), &args.device)?;
    if args.json {
        say(&all)
    } else {
        print(table::of(&all))
    }
    Ok(ExitCode::SUCCESS)
}

fn described(event: &str, all: &Statistics) -> Value {
    let mut value = as_json(all);
    value["event"] = event.into();
    value
}

/// What there is to know, for programs.
fn as_json(all: &Statistics) -> Value {
    let peers: Vec<Value> = all.peers.iter().map(peer_as_json).collect();
    let counters = &all.counters;
    json!({
        "device": all.device,
        "peers": peers,
        "held_bytes": all.held_bytes,
        "malformed": counters.malformed,
        "unknown": counters.unknown,
        "forged": counters.forged,
        "refused": counters.refused,
        "strayed": counters.strayed,
        "unnumbered": counters.unnumbered,
        "evicted": counters.evicted,
        "undelivered": all.undelivered,
        "unsent": all.unsent,
    })
}

fn peer_as_json(peer: &proto::acc::PeerStatistics) -> Value {
    let flow = |one: &proto::acc::FlowStatistics| {
        json!({
            "from": one.key.from.1,
            "to": one.key.to.1,
            "loss": one.loss,
            "q": one.queue,
            "w": one.sender.last_window,
            "c1": one.sender.last_c1,
            "c2": one.sender.last_c2,
            "coded": one.sender.at_ends + one.sender.on_losses,
            "timeouts_avoided": one.sender.timeouts_avoided,
        })
    };
    json!({
        "peer": peer.pair.remote,
        "local": peer.pair.local,
        "up": peer.up,
        "rtt_us": peer.rtt.map(|rtt| rtt.as_micros() as u64),
        "loss": peer.loss,
        "sent": peer.sent,
        "came": peer.came,
        "coded_at_ends": peer.sender.at_ends,
        "coded_on_losses": peer.sender.on_losses,
        "timeouts_avoided": peer.sender.timeouts_avoided,
        "lost": peer.lost,
        "coded_came": peer.receiver.coded,
        "recovered": peer.receiver.recovered,
        "useless": peer.receiver.useless,
        "impatient": peer.receiver.impatient,
        "held_bytes": peer.held_bytes,
        "flows": peer.flows.iter().map(flow).collect::<Vec<_>>(),
    })
}
