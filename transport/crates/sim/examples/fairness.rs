//! Prints how flows share the port of a star, for one set of parameters: `fairness KEY=VALUE ...`.
//!
//! A line for each of `runs`=5 seeds, the first being `seed`=1: utilisation, shares (1 is an equal one) by
//! kind and the extremes of any flow, Jain's index, the variation of shares over 200 ms, the queue.
//! `verbose`=1: a line for each flow.
//!
//! The port: `mbps`=100, `buffer`=65536 bytes, `mark`=0 bytes above which it marks (0: never), `drr`=0 bytes of its
//! quantum (0: no DRR), `red`=0 bytes at which RED begins (0: no RED; it ends at three times that), `ecn`=0 (1: RED marks),
//! `rtt_us`=300 there and back. The run: `seconds`=60, of which the last half counts. TFRC: `tfrc`=10 flows, `wire`=1102
//! bytes a datagram, `segment`=0 bytes that the rate control counts (0: `wire` less 42 of headers),
//! `equation`=0 bytes in the equation (0: the segment's), `rto_us`=0 least timeout in the equation,
//! `damped`=1 (RFC 5348 section 4.5), `timeout_us`=0 floor of the nofeedback timer, `late_us`=0 by which
//! timers are late at most, `credit_us`=1000 of unused time to make up for. TCP: `tcp`=0 flows, `sack`=1,
//! `mss`=1448, `b`=1 segments an acknowledgement.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_sim::{Discipline, Network, NodeId, Red, Star, StarConfig, Time, jain_index, tcp, tfrc};

type Values = BTreeMap<&'static str, u64>;

/// The ends of a flow; whether it is under TFRC.
type Flow = (NodeId, NodeId, bool);

fn main() {
    let mut values: Values = [
        ("tfrc", 10),
        ("tcp", 0),
        ("seconds", 60),
        ("slice_ms", 200),
        ("runs", 5),
        ("seed", 1),
        ("rtt_us", 300),
        ("mbps", 100),
        ("buffer", 65_536),
        ("mark", 0),
        ("drr", 0),
        ("red", 0),
        ("ecn", 0),
        ("wire", 1102),
        ("segment", 0),
        ("equation", 0),
        ("rto_us", 0),
        ("damped", 1),
        ("timeout_us", 0),
        ("late_us", 0),
        ("credit_us", 1000),
        ("sack", 1),
        ("mss", 1448),
        ("b", 1),
        ("verbose", 0),
    ]
    .into();
    for argument in std::env::args().skip(1) {
        let set = argument.split_once('=').and_then(|(key, value)| {
            *values.get_mut(key)? = value.parse().ok()?;
            Some(())
        });
        if set.is_none() {
            eprintln!("{argument}: not one of KEY=NUMBER with a KEY of {:?}", values.keys());
            std::process::exit(2);
        }
    }
    for seed in values["seed"]..values["seed"] + values["runs"] {
        run(&values, seed);
    }
}

fn run(values: &Values, seed: u64) {
    let mut network = Network::new(seed);
    let star = Star::new(
        &mut network,
        StarConfig {
            port_bps: values["mbps"] * 1_000_000,
            uplink_bps: 10 * values["mbps"] * 1_000_000,
            buffer_bytes: values["buffer"],
            base_rtt: Duration::from_micros(values["rtt_us"]),
            mark_above_bytes: Some(values["mark"]).filter(|bytes| *bytes != 0),
            discipline: discipline(values),
        },
    );
    let mut rng = network.fork_rng();
    let mut flows: Vec<Flow> = Vec::new();
    for i in 0..values["tfrc"] + values["tcp"] {
        let begin = Time::from_nanos(rng.below(100_000_000));
        let under_tfrc = i < values["tfrc"];
        let (server, client) = if under_tfrc {
            let config = tfrc_config(values, begin);
            let client = network.add(tfrc::Sink::new(&config));
            (network.add(tfrc::Source::new(client, config, rng.fork())), client)
        } else {
            let mss_bytes = values["mss"] as u32;
            let config = tcp::TcpConfig { begin, mss_bytes, ..tcp::TcpConfig::default() };
            let client = network.add(tcp::Sink::new(values["b"] as u32));
            let server = match values["sack"] {
                0 => network.add(tcp::NewReno::new(client, config)),
                _ => network.add(tcp::Sack::new(client, config)),
            };
            (server, client)
        };
        star.attach(&mut network, server, client);
        flows.push((server, client, under_tfrc));
    }
    network.count_slices(Duration::from_millis(values["slice_ms"]));
    network.run_for(Duration::from_secs(values["seconds"]) / 2);
    let half = network.link(star.port).counters(network.now());
    network.run_for(Duration::from_secs(values["seconds"]) / 2);
    let end = network.link(star.port).counters(network.now());
    let queue_bytes = (end.queued_byte_seconds - half.queued_byte_seconds) / (values["seconds"] as f64 / 2.0);
    print(values, seed, &network, &flows, queue_bytes);
}

fn discipline(values: &Values) -> Discipline {
    match (values["drr"], values["red"]) {
        (0, 0) => Discipline::DropTail,
        (quantum, 0) => Discipline::Drr { quantum_bytes: quantum as u32 },
        (0, min_bytes) => {
            let ecn = values["ecn"] != 0;
            Discipline::Red(Red { min_bytes, max_bytes: 3 * min_bytes, ecn, ..Red::default() })
        }
        _ => {
            eprintln!("drr and red: a link queues in one way");
            std::process::exit(2);
        }
    }
}

fn tfrc_config(values: &Values, begin: Time) -> tfrc::SourceConfig {
    let us = |key: &str| Duration::from_micros(values[key]);
    let wire_bytes = values["wire"] as u32;
    tfrc::SourceConfig {
        wire_bytes,
        segment_bytes: if values["segment"] == 0 { wire_bytes - 42 } else { values["segment"] as u32 },
        start: proto::tfrc::Start::Rtt(us("rtt_us")),
        begin,
        options: proto::tfrc::Options {
            reduce_oscillations: values["damped"] != 0,
            equation_bytes: Some(values["equation"] as u32).filter(|bytes| *bytes != 0),
            least_rto: us("rto_us"),
            least_timeout: us("timeout_us"),
        },
        late_by: us("late_us"),
        credit: us("credit_us"),
    }
}

fn print(values: &Values, seed: u64, network: &Network, flows: &[Flow], queue_bytes: f64) {
    let equal = values["mbps"] as f64 * 1e6 / 8.0 / flows.len() as f64;
    let slice_s = values["slice_ms"] as f64 / 1e3;
    let first = (values["seconds"] as f64 / 2.0 / slice_s) as usize;
    let slices: Vec<Vec<f64>> = flows
        .iter()
        .map(|&(server, client, _)| {
            let slices = network.flow(server, client).slices_bytes;
            slices.iter().skip(first).map(|bytes| *bytes as f64 / slice_s / equal).collect()
        })
        .collect();
    let shares: Vec<f64> = slices.iter().map(|slices| mean(slices)).collect();
    let of_kind = |under_tfrc: bool, value: &dyn Fn(usize) -> f64| {
        let values: Vec<f64> = (0..flows.len()).filter(|&i| flows[i].2 == under_tfrc).map(value).collect();
        mean(&values)
    };
    let extremes =
        |x: &mut dyn Iterator<Item = f64>| x.fold((f64::INFINITY, 0.0_f64), |(l, h), x| (l.min(x), h.max(x)));
    let (least, most) = extremes(&mut shares.iter().copied());
    let (least_slice, most_slice) = extremes(&mut slices.iter().flatten().copied());
    println!(
        "seed {seed}: utilisation {:.4}, TFRC {:.3}, TCP {:.3}, {least:.3} to {most:.3}, Jain {:.4}; \
         in slices {least_slice:.2} to {most_slice:.2}, deviation TFRC {:.2}, TCP {:.2}; queue {:.1} kB",
        mean(&shares),
        of_kind(true, &|i| shares[i]),
        of_kind(false, &|i| shares[i]),
        jain_index(&shares),
        of_kind(true, &|i| deviation(&slices[i])),
        of_kind(false, &|i| deviation(&slices[i])),
        queue_bytes / 1e3,
    );
    if values["verbose"] != 0 {
        flows.iter().zip(shares).for_each(|(flow, share)| print_flow(values, network, flow, share));
    }
}

fn print_flow(values: &Values, network: &Network, &(server, client, under_tfrc): &Flow, share: f64) {
    let flow = network.flow(server, client);
    let lost = flow.lost as f64 / flow.sent as f64;
    let state = if under_tfrc {
        let sender = network.node::<tfrc::Source>(server).sender();
        format!("TFRC, p {:.4}, {:?}", sender.loss_event_rate(), sender.rtt().unwrap_or_default())
    } else if values["sack"] == 0 {
        format!("{:?}", network.node::<tcp::NewReno>(server).counters())
    } else {
        format!("{:?}", network.node::<tcp::Sack>(server).counters())
    };
    println!("  {share:.3}, lost {lost:.4}: {state}");
}

fn mean(x: &[f64]) -> f64 {
    x.iter().sum::<f64>() / x.len() as f64
}

/// The standard deviation, in means.
fn deviation(x: &[f64]) -> f64 {
    let mean = mean(x);
    (x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / x.len() as f64).sqrt() / mean
}
