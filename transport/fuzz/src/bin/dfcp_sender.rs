//! A DFCP sender whatever its receiver does.
#![no_main]

use std::sync::Arc;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use weir_fuzz::Bytes;
use weir_proto::Time;
use weir_proto::dfcp::{Sender, SenderConfig, SenderEvent, Transmit};
use weir_proto::object::Object;
use weir_proto::protect::Protection;
use wire::control::Version;
use wire::packet::{Header, Kind, Need, Needs, Report};

const MOST_STEPS: usize = 200;
const SIZE: u64 = 5_000;

fn report(bytes: &mut Bytes<'_>) -> Report {
    let count = bytes.byte() % 8;
    let need = |bytes: &mut Bytes<'_>| Need {
        request: u16::from(bytes.byte() % 4),
        block: u32::from(bytes.byte() % 16),
        needs: match bytes.number(2) as u16 {
            n if n % 3 == 0 => Needs::Nothing,
            n => Needs::Symbols(n),
        },
    };
    Report {
        echo_us: bytes.number(4) as u32,
        delay_us: bytes.number(2) as u32,
        x_recv: bytes.number(6),
        loss_event_rate: f64::from(bytes.byte()) / 255.0,
        highest: bytes.number(2),
        received: bytes.number(2),
        ect: bytes.number(2),
        ce: bytes.number(2),
        needs: (0..count).map(|_| need(bytes)).collect(),
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = Bytes(bytes);
    let config = SenderConfig {
        symbol_bytes: 64,
        block_symbols: 10,
        early_stop: bytes.byte() % 2 == 0,
        acknowledgements: bytes.byte() % 4 > 0,
        max_held_bytes: 2_000,
        ..SenderConfig::default()
    };
    let mut now = Time::ZERO;
    let mut sender = Sender::new(config, now, 1, Protection::insecure(), Duration::from_millis(1));
    let object = Object { size: SIZE, version: Version([0; 16]), modified_ns: 0, mode: 0 };
    for _ in 0..3 {
        let _ = sender.offer("a", &object);
    }
    let mut number = 0;
    for _ in 0..MOST_STEPS {
        if bytes.is_empty() {
            break;
        }
        match bytes.byte() % 6 {
            0 | 1 => {
                if let Some(message) = bytes.message() {
                    sender.handle_control(now, message);
                }
            }
            2 => {
                let mut datagram = Vec::new();
                Header { kind: Kind::Report, connection: 1, number }.emit(&mut datagram);
                report(&mut bytes).emit(&mut datagram);
                number += 1;
                sender.handle_datagram(now, &mut datagram);
            }
            3 => sender.handle_datagram(now, &mut bytes.some()),
            4 => now = now + Duration::from_nanos(bytes.number(4)),
            _ => sender.tell_rate(now, bytes.number(4) as f64),
        }
        sender.handle_timeout(now);
        while let Some(event) = sender.poll_event() {
            if let SenderEvent::Load { request, block, offset, bytes } = event {
                assert!(offset + bytes as u64 <= SIZE);
                sender.provide(request, block, Arc::from(vec![1; bytes]));
            }
        }
        while sender.poll_control().is_some() {}
        let mut buffer = Vec::new();
        for _ in 0..20 {
            let Some(Transmit { segment_bytes, .. }) = sender.poll_transmit(now, &mut buffer, 8) else { break };
            assert!(buffer.len() <= 8 * segment_bytes);
            buffer.clear();
        }
        let _ = sender.poll_timeout(now);
    }
});
