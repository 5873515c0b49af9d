//! Both ends of DFCP's signalling whatever comes: what they say stays short, and they take no more than they were sent.
#![no_main]

use std::net::SocketAddr;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use weir_fuzz::Bytes;
use weir_proto::Time;
use weir_proto::dfcp::{AddressValidator, Signalling};
use wire::packet::{HEADER_BYTES, MAX_SIGNAL_PAYLOAD, SIGNAL_BYTES, Signal};

const MOST_STEPS: usize = 300;

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = Bytes(bytes);
    let from: SocketAddr = ([10, 0, 0, 1], 4870).into();
    let door = AddressValidator::new(&[1; 32]);
    let mut now = Time::ZERO;
    let mut ends = [Signalling::initiate(now, 1), Signalling::respond(now, 1)];
    let (mut came, mut written) = (0, 0);
    for _ in 0..MOST_STEPS {
        if bytes.is_empty() {
            break;
        }
        let which = usize::from(bytes.byte() % 2);
        match bytes.byte() % 4 {
            0 | 1 => {
                let datagram = bytes.some();
                if let Ok((signal, payload)) = Signal::parse(&datagram) {
                    let mut answer = Vec::new();
                    door.admits(now, from, 1, &signal, payload, &mut answer);
                    assert!(answer.len() <= HEADER_BYTES + SIGNAL_BYTES + 16);
                    came += payload.len();
                    ends[which].handle(now, &signal, payload);
                }
            }
            2 => now = now + Duration::from_nanos(bytes.number(4)),
            _ => {
                let some = bytes.some();
                // Nothing is written after the end.
                if written < 100_000 {
                    ends[0].write(&some);
                    written += some.len();
                }
            }
        }
        for end in &mut ends {
            came -= end.take().len().min(came);
            let mut buffer = Vec::new();
            for _ in 0..8 {
                if !end.poll_transmit(now, &mut buffer) {
                    break;
                }
                assert!(buffer.len() <= HEADER_BYTES + SIGNAL_BYTES + MAX_SIGNAL_PAYLOAD);
                buffer.clear();
            }
            let _ = (end.poll_timeout(), end.is_over(), end.has_ended());
        }
    }
});
