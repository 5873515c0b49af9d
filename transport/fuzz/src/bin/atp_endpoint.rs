//! Endpoints of ATP, whatever comes to them: datagrams of each other's, late, again or spoilt, and others from anywhere. Nobody is
//! let in beyond what may be, no more is held than is said, and all come to rest.
#![no_main]

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use rustls::{ClientConfig, ServerConfig};
use weir_fuzz::Bytes;
use weir_fuzz::tls::Tls;
use weir_proto::Time;
use weir_proto::atp::{ConnectionConfig, Endpoint, EndpointConfig, Event, Read};
use weir_proto::ecn::Codepoint;
use weir_proto::limits::Limits;
use wire::packet::{Header, Kind};

const MOST_STEPS: usize = 200;
const MOST_CONNECTIONS: usize = 4;
const KINDS: [Kind; 7] =
    [Kind::Initial, Kind::Handshake, Kind::Early, Kind::Data, Kind::Retry, Kind::Refusal, Kind::Symbol];

static TLS: LazyLock<(Arc<ClientConfig>, Arc<ServerConfig>)> = LazyLock::new(|| Tls::new().configs());

/// The server's address (0), the client's, and those of strangers.
fn address(n: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, n, 1], 4000))
}

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = Bytes(bytes);
    let mut now = Time::from_nanos(1_000_000_000);
    let limits = Limits {
        connections: MOST_CONNECTIONS,
        connections_of_an_address: 1 + bytes.byte() as usize % MOST_CONNECTIONS,
        memory_bytes: 8 << 20,
        ..Limits::default()
    };
    let connection =
        ConnectionConfig { early: bytes.byte() % 2 == 0, stays_open: bytes.byte() % 2 == 0, ..Default::default() };
    let mut ends = [Some(TLS.1.clone()), None].map(|server| {
        Endpoint::new(EndpointConfig { connection: connection.clone(), limits, server, key: [7; 32] })
    });
    let mut sent: [Vec<Vec<u8>>; 2] = Default::default();
    let mut ids: [Vec<_>; 2] = Default::default();
    for _ in 0..MOST_STEPS {
        if bytes.is_empty() {
            break;
        }
        let which = usize::from(bytes.byte() % 2);
        let end = &mut ends[which];
        let from = address(bytes.byte() % 4);
        let ecn = Codepoint::from_bits(bytes.byte());
        match bytes.byte() % 12 {
            0 => {
                let name = "here".try_into().expect("it is a name");
                ids[1].extend(ends[1].connect(now, address(0), name, TLS.0.clone()));
            }
            1..=5 => {
                let others = &sent[1 - which];
                if let Some(genuine) = others.get(bytes.number(2) as usize % others.len().max(1)) {
                    let mut datagram = genuine.clone();
                    let mut from = address(1 - which as u8);
                    match bytes.byte() % 8 {
                        0 => {
                            let at = bytes.number(2) as usize % datagram.len();
                            datagram[at] ^= bytes.byte();
                        }
                        1 => datagram.truncate(bytes.number(2) as usize % datagram.len()),
                        2 => from = address(bytes.byte() % 4),
                        _ => {}
                    }
                    end.handle_datagram(now, from, None, ecn, &mut datagram);
                }
            }
            6 | 7 => {
                let mut datagram = Vec::new();
                let kind = KINDS[bytes.byte() as usize % KINDS.len()];
                // A number that somebody has, perhaps.
                let known = sent[1 - which].first().and_then(|one| Header::parse(one).ok());
                let connection = known.map_or(bytes.number(1) as u32, |header| header.connection);
                Header { kind, connection, number: bytes.number(1) }.emit(&mut datagram);
                datagram.extend(bytes.some());
                end.handle_datagram(now, from, None, ecn, &mut datagram);
            }
            8 => now = now + Duration::from_nanos(bytes.number(4)),
            9 | 10 => {
                if let Some(id) = ids[which].get(bytes.byte() as usize % ids[which].len().max(1)).copied() {
                    match bytes.byte() % 4 {
                        0 => end.forget(now, id, 1, "fuzzed"),
                        1 => drop(end.with(id, |connection| connection.close(now, 1, "fuzzed"))),
                        _ => {
                            end.with(id, |connection| {
                                let Some(stream) = connection.open() else { return };
                                let _ = connection.write(now, stream, &vec![7; bytes.number(2) as usize]);
                                let _ = connection.finish(stream);
                            });
                        }
                    }
                }
            }
            _ if bytes.byte() == 0 => end.close(now, 1, "fuzzed"),
            _ => {}
        }
        if bytes.byte() % 4 == 0 {
            continue;
        }
        for ((end, sent), ids) in ends.iter_mut().zip(&mut sent).zip(&mut ids) {
            for n in 0.. {
                assert!(n < 10_000, "it sends without end");
                let mut buffer = Vec::new();
                let transmit = end.poll_transmit(now, 16, 64_000, &mut buffer);
                while let Some((id, event)) = end.poll_event() {
                    if !ids.contains(&id) {
                        ids.push(id);
                    }
                    if let Event::Readable(stream) = event {
                        let read = |connection: &mut weir_proto::atp::Connection| {
                            let mut out = [0; 1000];
                            while let Read::Bytes(_) = connection.read(now, stream, &mut out) {}
                        };
                        end.with(id, read);
                    }
                }
                let Some(transmit) = transmit else { break };
                sent.extend(buffer.chunks(transmit.segment_bytes).map(<[u8]>::to_vec));
            }
            assert!(end.poll_timeout().is_none_or(|at| at > now), "it never comes to rest");
            assert!(end.len() <= MOST_CONNECTIONS);
            assert!(end.peak_bytes() <= limits.memory_bytes);
            let _ = (end.counters(), end.connection_counters());
        }
    }
});
