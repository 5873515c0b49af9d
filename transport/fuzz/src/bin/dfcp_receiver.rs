//! A DFCP receiver whatever its sender does.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use weir_fuzz::Bytes;
use weir_proto::Time;
use weir_proto::dfcp::{Receiver, ReceiverConfig, ReceiverEvent};
use weir_proto::ecn::Codepoint;
use weir_proto::protect::Protection;
use wire::control::{self, Code, Offer, Parameters, Refusal, Run, Version};
use wire::packet::{Header, Kind, Piece, Symbol};

const MOST_STEPS: usize = 300;
/// Few numbers, so that objects have those of others before them.
const REQUESTS: u8 = 4;

fn offer(bytes: &mut Bytes) -> Offer {
    let parameters = Parameters {
        request: (bytes.byte() % REQUESTS).into(),
        size: bytes.number(2),
        version: Version([0; 16]),
        modified_ns: 0,
        mode: 0,
        seed: 0,
        last_seed: 0,
    };
    let symbol_bytes = [16, 64, 100, 1_408][usize::from(bytes.byte() % 4)];
    Offer { path: "a".into(), parameters, symbol_bytes, block_symbols: bytes.byte().into(), code: Code::Raptor }
}

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = Bytes(bytes);
    let config =
        ReceiverConfig { window_bytes: 10_000, max_blocks: 4, max_objects: 3, least_block_bytes: 0, ..ReceiverConfig::default() };
    let mut now = Time::ZERO;
    let mut receiver = Receiver::new(config, now, 1, Protection::insecure());
    receiver.handle_control(now, control::Sender::Hello { version: wire::VERSION });
    let mut symbol_bytes = [0; REQUESTS as usize];
    for _ in 0..MOST_STEPS {
        if bytes.is_empty() {
            break;
        }
        match bytes.byte() % 8 {
            0 => {
                if let Some(message) = bytes.message() {
                    receiver.handle_control(now, message);
                }
            }
            1 => {
                let offer = offer(&mut bytes);
                symbol_bytes[usize::from(offer.parameters.request)] = usize::from(offer.symbol_bytes);
                receiver.handle_control(now, control::Sender::Offer(offer));
            }
            2 | 3 => {
                let mut datagram = Vec::new();
                let (is_piece, which) = (bytes.byte() % 2 == 0, bytes.byte());
                let kind = if is_piece { Kind::Piece } else { Kind::Symbol };
                Header { kind, connection: 1, number: bytes.number(2) }.emit(&mut datagram);
                let symbol = Symbol {
                    request: (bytes.byte() % REQUESTS).into(),
                    block: u32::from(bytes.byte()),
                    index: bytes.number(2) as u16,
                    sent_us: bytes.number(4) as u32,
                    rtt_us: bytes.number(3) as u32,
                };
                if is_piece {
                    Piece { symbol, piece: which % 16, of: which / 16 }.emit(&mut datagram);
                } else {
                    symbol.emit(&mut datagram);
                }
                if bytes.byte() % 4 == 0 {
                    datagram.extend_from_slice(&bytes.some());
                } else {
                    // As long as it should be.
                    let pieces = if is_piece { usize::from(which / 16).max(1) } else { 1 };
                    let payload = symbol_bytes[usize::from(symbol.request)].div_ceil(pieces);
                    datagram.resize(datagram.len() + payload, which);
                }
                if let Some(arrival) = receiver.handle_datagram(now, Codepoint::from_bits(bytes.byte()), &mut datagram) {
                    assert!(arrival.payload.len() <= 9_000);
                    let (request, block, enough) = (arrival.request, arrival.block, arrival.enough);
                    if enough {
                        receiver.complete(now, request, block);
                    } else {
                        receiver.needs(now, request, block, bytes.number(2) as u16);
                    }
                }
            }
            4 => drop(receiver.handle_datagram(now, Codepoint::Ce, &mut bytes.some())),
            5 => receiver.stored((bytes.byte() % REQUESTS).into()),
            6 => receiver.refuse((bytes.byte() % REQUESTS).into(), Refusal::Busy, String::new()),
            _ => now = now + Duration::from_nanos(bytes.number(4)),
        }
        receiver.handle_timeout(now);
        while let Some(event) = receiver.poll_event() {
            if let ReceiverEvent::Offer(offer) = event {
                receiver.accept(offer.parameters.request, &[Run { first: 0, count: u32::MAX }]);
            }
        }
        while receiver.poll_control().is_some() {}
        let mut buffer = Vec::new();
        for _ in 0..4 {
            if !receiver.poll_transmit(now, &mut buffer) {
                break;
            }
            assert!(buffer.len() < 1_400);
            buffer.clear();
        }
        let _ = receiver.poll_timeout();
    }
});
