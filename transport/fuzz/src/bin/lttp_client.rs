//! A client whatever its server does.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_fuzz::Bytes;
use weir_fuzz::peers::{ToClient, Victim, modest};
use weir_proto::lttp::ClientConfig;
use wire::control::{Frames, Run, Server};

/// Steps of one run: more only take longer.
const MOST_STEPS: usize = 400;

fn step(bytes: &mut Bytes<'_>) -> Option<ToClient> {
    let request = |bytes: &mut Bytes<'_>| u16::from(bytes.byte() % 4);
    let block = |bytes: &mut Bytes<'_>| match bytes.byte() {
        255 => bytes.number(4) as u32,
        small => small.into(),
    };
    Some(match bytes.byte() % 14 {
        0 => {
            let count = bytes.byte() % 4;
            let run = |bytes: &mut Bytes<'_>| Run { first: block(bytes), count: block(bytes) };
            ToClient::Fetch((0..count).map(|_| run(bytes)).collect())
        }
        1 => ToClient::Cancel(request(bytes)),
        2 => ToClient::Complete(request(bytes), block(bytes)),
        3 => ToClient::Needs(request(bytes), block(bytes), bytes.number(2) as u16),
        4 => ToClient::Parameters(request(bytes), bytes.number(3)),
        5 => ToClient::Hash(request(bytes), block(bytes)),
        6 => ToClient::Refused(request(bytes)),
        7 | 8 => ToClient::Symbol {
            request: request(bytes),
            block: block(bytes),
            index: bytes.byte().into(),
            payload_bytes: if bytes.byte() == 0 { 99 } else { 100 },
        },
        9 => {
            let body = bytes.some();
            let mut frame = (body.len() as u32).to_be_bytes().to_vec();
            frame.extend_from_slice(&body);
            let mut frames = Frames::default();
            frames.extend(&frame);
            ToClient::Hear(frames.message::<Server>().ok()??)
        }
        10 => ToClient::Sealed(bytes.byte() % 6 + 1, bytes.number(3), bytes.some()),
        11 => ToClient::Piece {
            request: request(bytes),
            block: block(bytes),
            index: bytes.byte().into(),
            piece: bytes.byte() % 4,
            of: bytes.byte() % 5,
            payload_bytes: if bytes.byte() == 0 { 51 } else { 50 },
        },
        12 => ToClient::Probe(bytes.number(2) as usize % 1_500),
        _ => ToClient::Wait(bytes.number(4) >> (bytes.byte() % 16)),
    })
}

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = Bytes(bytes);
    let first = bytes.byte();
    let config = ClientConfig { credits: first & 2 == 0, ..modest() };
    let mut victim = Victim::new(config, first & 1 == 0);
    let mut steps = 0;
    while !bytes.is_empty() && steps < MOST_STEPS {
        steps += 1;
        if let Some(step) = step(&mut bytes) {
            victim.apply(step);
        }
    }
});
