//! A server whatever its client does.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_fuzz::Bytes;
use weir_fuzz::peers::{Bench, ToServer};
use weir_proto::lttp::ServerConfig;
use wire::control::{Client, Pacing};
use wire::packet::Credit;

/// Steps of one run: more only take longer.
const MOST_STEPS: usize = 200;

fn step(bytes: &mut Bytes<'_>) -> Option<ToServer> {
    Some(match bytes.byte() % 9 {
        0 | 1 => {
            let mut message = bytes.message::<Client>()?;
            if let Client::Fetch(fetch) = &mut message {
                // Large blocks take long to encode, and show nothing that small ones do not.
                fetch.block_symbols %= 600;
                fetch.path.truncate(0);
                fetch.path.push('a');
            }
            ToServer::Say(message)
        }
        2 | 3 => {
            let count = bytes.byte() % 8;
            let credit = |bytes: &mut Bytes<'_>| Credit {
                request: u16::from(bytes.byte() % 4),
                block: bytes.byte().into(),
                want: bytes.number(2) as u16,
            };
            ToServer::Feedback {
                x_recv: (bytes.byte() % 2 == 0).then(|| bytes.number(6) >> 20),
                loss_event_rate: f64::from(bytes.byte()) / 255.0,
                echo_us: bytes.number(4) as u32,
                delay_us: bytes.number(4) as u32,
                highest: bytes.byte().into(),
                received: bytes.number(6) >> 20,
                credits: (0..count).map(|_| credit(bytes)).collect(),
            }
        }
        4 => ToServer::Hello(usize::from(bytes.byte()) * 6),
        5 => ToServer::Raw(bytes.some()),
        6 => ToServer::Sealed(bytes.byte() % 6 + 1, bytes.number(3), bytes.some()),
        7 => ToServer::Answer(bytes.number(2) as u16),
        _ => ToServer::Wait(bytes.number(4) << (bytes.byte() % 4)),
    })
}

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = Bytes(bytes);
    let config = ServerConfig { max_held_bytes: 1 << 20, max_blocks: 4, ..ServerConfig::default() };
    let mut bench = Bench::new(config, bytes.byte() % 2 == 0).proven();
    bench.object_bytes = bytes.number(4);
    let mut steps = 0;
    while !bytes.is_empty() && steps < MOST_STEPS {
        steps += 1;
        if let Some(step) = step(&mut bytes) {
            // What is sent to nobody in the paper's mode is sent until the cap: enough of it.
            if let ToServer::Say(Client::Fetch(fetch)) = &step {
                if fetch.pacing == Pacing::Tfrc && fetch.symbol_bytes > 2_000 {
                    continue;
                }
            }
            bench.apply(step);
        }
    }
});
