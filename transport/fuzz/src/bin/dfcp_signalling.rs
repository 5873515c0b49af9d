//! Both ends of DFCP's signalling whatever comes: what they say stays short, and they take no more than they were sent,
//! sealed or not.
#![no_main]

use std::net::SocketAddr;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use weir_fuzz::Bytes;
use weir_proto::Time;
use weir_proto::dfcp::{AddressValidator, Signalling};
use weir_proto::protect::{Protection, Side};
use wire::packet::{HEADER_BYTES, Header, Kind, MAX_SIGNAL_PAYLOAD, SIGNAL_BYTES, Signal};

const MOST_STEPS: usize = 300;
const CONNECTION: u32 = 1;
const SIDES: [Side; 2] = [Side::Client, Side::Server];

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = Bytes(bytes);
    let from: SocketAddr = ([10, 0, 0, 1], 4870).into();
    let door = AddressValidator::new(&[1; 32]);
    let mut now = Time::ZERO;
    let mut ends = [Signalling::initiate(now, CONNECTION), Signalling::respond(now, CONNECTION)];
    // What each end has sent.
    let mut sent: [Vec<Vec<u8>>; 2] = Default::default();
    let (mut came, mut written, mut protected) = (0, 0, [false; 2]);
    for _ in 0..MOST_STEPS {
        if bytes.is_empty() {
            break;
        }
        let which = usize::from(bytes.byte() % 2);
        match bytes.byte() % 8 {
            0 | 1 => {
                let mut datagram = Vec::new();
                let header = Header { kind: Kind::Signal, connection: CONNECTION, number: bytes.number(6) };
                header.emit(&mut datagram);
                datagram.extend(bytes.some());
                if let Ok((signal, payload)) = Signal::parse(&datagram[HEADER_BYTES..]) {
                    let mut answer = Vec::new();
                    door.admits(now, from, CONNECTION, &signal, payload, &mut answer);
                    assert!(answer.len() <= HEADER_BYTES + SIGNAL_BYTES + 16);
                }
                came += datagram.len();
                ends[which].handle_datagram(now, &header, &datagram);
            }
            // One that the other end has sent, in any order, more than once, or spoilt.
            2 | 3 => {
                let others = &sent[1 - which];
                if let Some(genuine) = others.get(bytes.number(2) as usize % others.len().max(1)) {
                    let mut datagram = genuine.clone();
                    if bytes.byte() % 4 == 0 {
                        let at = HEADER_BYTES + bytes.number(2) as usize % (datagram.len() - HEADER_BYTES);
                        datagram[at] ^= bytes.byte();
                    }
                    let header = Header::parse(&datagram).expect("the header is as it was");
                    came += datagram.len();
                    if header.kind == Kind::Probe {
                        if ends[which].open_probe(&header, &datagram).is_some() {
                            ends[which].answer(datagram.len() as u16);
                        }
                    } else {
                        ends[which].handle_datagram(now, &header, &datagram);
                    }
                }
            }
            6 if ends[which].can_probe() => {
                let mut buffer = Vec::new();
                let bytes = bytes.number(2) as u16 % 1_500;
                ends[which].probe(bytes, &mut buffer);
                assert!(buffer.len() <= usize::from(bytes).max(HEADER_BYTES + 2 + 16));
                sent[which].push(buffer);
            }
            4 => now = now + Duration::from_nanos(bytes.number(5)),
            5 if !protected[which] => {
                protected[which] = true;
                ends[which].protect(Protection::new(&[7; 32], SIDES[which]), SIDES[which]);
            }
            _ => {
                let some = bytes.some();
                if written < 100_000 {
                    ends[which].write(&some);
                    written += some.len();
                }
            }
        }
        for (end, sent) in ends.iter_mut().zip(&mut sent) {
            let taken = end.take().len();
            assert!(taken <= came);
            came -= taken;
            for _ in 0..8 {
                let mut buffer = Vec::new();
                if !end.poll_transmit(now, &mut buffer) {
                    break;
                }
                assert!(buffer.len() <= HEADER_BYTES + SIGNAL_BYTES + MAX_SIGNAL_PAYLOAD);
                sent.push(buffer);
            }
            let _ = (end.poll_timeout(), end.is_over(), end.has_ended(), end.was_reset(now, None));
        }
    }
});
