//! Incast in virtual time: 64 KB from each of N servers over 100 Mb/s with a buffer of 64 KB.

mod common;

use common::{Bed, SECOND};
use proto::coding::Method;
use proto::lttp::ClientConfig;
use weir_sim::Time;
use wire::control::Code;

const OBJECT_BYTES: usize = 64 << 10;

struct Outcome {
    goodput_bps: f64,
    sent: u64,
    dropped: u64,
    most_queued_bytes: u64,
}

fn incast(servers: usize, client: ClientConfig) -> Outcome {
    let mut run = Bed { client, servers, sizes: vec![OBJECT_BYTES], ..Bed::default() }.build();
    let end = run.deliver(60 * SECOND);
    let counters = run.network.link(run.port).counters(end);
    Outcome {
        goodput_bps: 8.0 * (servers * OBJECT_BYTES) as f64 / end.since(Time::ZERO).as_secs_f64(),
        sent: (0..servers).map(|s| run.server(s).counters(run.client).symbols).sum(),
        dropped: counters.dropped,
        most_queued_bytes: counters.most_queued_bytes,
    }
}

fn paper(symbol_bytes: u16) -> ClientConfig {
    ClientConfig {
        credits: false,
        code: Code::Independent,
        method: Method::Peeling,
        block_symbols: 64,
        symbol_bytes,
        ..ClientConfig::default()
    }
}

#[test]
fn goodput_does_not_fall_with_the_number_of_servers() {
    println!("mode     symbol    N   Mb/s  symbols sent  dropped  longest queue");
    let modes = [
        ("credits", ClientConfig { symbol_bytes: 1024, ..ClientConfig::default() }),
        ("credits", ClientConfig { symbol_bytes: 1408, ..ClientConfig::default() }),
        ("paper", paper(1024)),
    ];
    for (mode, client) in modes {
        let mut before = 0.0_f64;
        for servers in [1, 6, 40, 120] {
            let symbol_bytes = client.symbol_bytes;
            let Outcome { goodput_bps, sent, dropped, most_queued_bytes } = incast(servers, client.clone());
            println!(
                "{mode:8} {symbol_bytes:6} {servers:4} {:6.1} {sent:13} {dropped:8} {most_queued_bytes:14}",
                goodput_bps / 1e6
            );
            if client.credits {
                assert_eq!(dropped, 0, "{servers} servers");
                let least = if servers < 6 {
                    0.65e8
                } else if symbol_bytes == 1024 {
                    0.80e8
                } else {
                    0.84e8
                };
                assert!(goodput_bps >= least, "{servers} servers: {goodput_bps}");
                assert!(goodput_bps >= 0.99 * before, "{servers} servers: {goodput_bps} after {before}");
            } else {
                // The paper's own: from 0.6 of the link up, whatever N is.
                assert!(goodput_bps >= 0.5e8, "{servers} servers: {goodput_bps}");
            }
            before = before.max(goodput_bps);
        }
    }
}
