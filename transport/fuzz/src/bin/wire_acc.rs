//! Any datagram of TCP-ACC's layer is read or refused, and what is read is written again as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::acc::{Datagram, HELLO_BYTES, MAX_SESSION, PACKET_BYTES, Packet, TAG_BYTES};

fuzz_target!(|bytes: &[u8]| {
    let mut again = Vec::new();
    match Datagram::parse(bytes) {
        Err(_) => {}
        Ok(Datagram::Hello(hello, covered, code)) => {
            hello.emit(&mut again);
            assert_eq!(again, covered);
            again.extend(code);
            assert_eq!((again.len(), &again[..]), (HELLO_BYTES, bytes));
        }
        Ok(Datagram::Packet(envelope)) => {
            assert!(envelope.session <= MAX_SESSION);
            let end = bytes.len() - TAG_BYTES;
            let Ok(packet) = Packet::parse(&envelope, &bytes[PACKET_BYTES..end]) else { return };
            packet.emit(envelope.session, envelope.counter, envelope.covered_bytes().1, &mut again);
            assert_eq!(again, bytes[..end]);
        }
    }
});
