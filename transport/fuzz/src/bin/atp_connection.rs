//! Both ends of an ATP connection whatever comes, of each other's datagrams and of others that are as authentic: they hold no more
//! than they may, come to rest, and say nothing that the other end cannot read.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use weir_fuzz::Bytes;
use weir_proto::atp::{Connection, ConnectionConfig, Event, FIRST_STREAMS, Read, StreamId};
use weir_proto::ecn::Codepoint;
use weir_proto::protect::{Protection, Side};
use weir_proto::{Budget, Time};
use wire::atp::{Frames, Preamble};
use wire::packet::{HEADER_BYTES, Header, Kind};

const MOST_STEPS: usize = 300;
const CONNECTION: u32 = 1;
const SIDES: [Side; 2] = [Side::Client, Side::Server];
const BUDGET_BYTES: usize = 1 << 20;
/// What a connection holds beside what it counts: sums of parity, and lists.
const BESIDE_BYTES: usize = 64 << 10;

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = Bytes(bytes);
    let mut now = Time::ZERO;
    let mut ends = SIDES.map(|side| {
        let config = ConnectionConfig {
            datagram_bytes: 512 + bytes.number(1) as u16,
            max_streams: bytes.number(1),
            send_bytes: bytes.number(2) as usize,
            parity: bytes.byte() % 4 != 0,
            budget: Budget::new(BUDGET_BYTES),
            ..ConnectionConfig::default()
        };
        Connection::new(now, side, CONNECTION, Protection::insecure(), config).expect("room for one")
    });
    let mut sent: [Vec<Vec<u8>>; 2] = Default::default();
    for _ in 0..MOST_STEPS {
        if bytes.is_empty() {
            break;
        }
        let which = usize::from(bytes.byte() % 2);
        let end = &mut ends[which];
        let stream = StreamId(bytes.number(1) % (2 * FIRST_STREAMS));
        match bytes.byte() % 14 {
            0..=2 => {
                let mut datagram = Vec::new();
                let number = bytes.number(2);
                Header { kind: Kind::Data, connection: CONNECTION, number }.emit(&mut datagram);
                datagram.extend(bytes.some());
                end.handle_datagram(now, Codepoint::from_bits(bytes.byte()), &mut datagram);
            }
            // One that the other end has sent, in any order, more than once, or spoilt.
            3..=5 => {
                let others = &sent[1 - which];
                if let Some(genuine) = others.get(bytes.number(2) as usize % others.len().max(1)) {
                    let mut datagram = genuine.clone();
                    if bytes.byte() % 4 == 0 {
                        let at = bytes.number(2) as usize % datagram.len();
                        datagram[at] ^= bytes.byte();
                    }
                    end.handle_datagram(now, Codepoint::from_bits(bytes.byte()), &mut datagram);
                }
            }
            6 => now = now + Duration::from_nanos(bytes.number(4)),
            7 => drop(end.open()),
            8 => {
                let some = vec![7; bytes.number(2) as usize];
                if let Ok(count) = end.write(now, stream, &some) {
                    assert!(count <= some.len());
                }
            }
            9 => drop(end.finish(stream)),
            10 => end.reset(stream, bytes.number(2)),
            11 => end.stop(stream, bytes.number(2)),
            12 => {
                let mut out = vec![0; bytes.number(2) as usize];
                if let Read::Bytes(count) = end.read(now, stream, &mut out) {
                    assert!(count > 0 && count <= out.len());
                }
            }
            _ if bytes.byte() == 0 => end.close(now, 1, "fuzzed"),
            _ => {}
        }
        // Much may come before anything is sent.
        if bytes.byte() % 4 == 0 {
            continue;
        }
        for (end, sent) in ends.iter_mut().zip(&mut sent) {
            if end.poll_timeout().is_some_and(|at| at <= now) {
                end.handle_timeout(now);
            }
            while let Some(event) = end.poll_event() {
                if let Event::Closed(_) = event {
                    assert_eq!(end.open(), None);
                }
            }
            for n in 0.. {
                assert!(n < 10_000, "it sends without end");
                let mut buffer = Vec::new();
                if end.poll_transmit(now, &mut buffer).is_none() {
                    break;
                }
                let header = Header::parse(&buffer).expect("a header");
                let (_, frames) = Preamble::parse(header.number, &buffer[HEADER_BYTES..]).expect("a preamble");
                assert!(Frames::new(header.number, frames).all(|frame| frame.is_ok()));
                sent.push(buffer);
            }
            assert!(end.poll_timeout().is_none_or(|at| at > now), "it never comes to rest");
            assert!(end.held_bytes() <= BUDGET_BYTES + BESIDE_BYTES);
            let _ = (end.counters(), end.is_over(), end.window_bytes(), end.group(), end.rtt());
        }
    }
});
