//! Any datagram is read or refused; what was read is written as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::packet::{FEEDBACK_BYTES, Feedback, HEADER_BYTES, Header, Piece, Probe, Report, Signal, Symbol, Welcome};

fuzz_target!(|bytes: &[u8]| {
    let mut again = Vec::new();
    if let Ok(header) = Header::parse(bytes) {
        header.emit(&mut again);
        assert_eq!(again, bytes[..HEADER_BYTES]);
    }
    let body = bytes.get(HEADER_BYTES..).unwrap_or_default();
    again.clear();
    if let Ok((symbol, payload)) = Symbol::parse(body) {
        symbol.emit(&mut again);
        again.extend_from_slice(payload);
        assert_eq!(again, body);
    }
    again.clear();
    if let Ok((piece, payload)) = Piece::parse(body) {
        assert!(piece.piece < piece.of);
        piece.emit(&mut again);
        again.extend_from_slice(payload);
        assert_eq!(again, body);
    }
    again.clear();
    if let Ok(probe) = Probe::parse(body) {
        probe.emit(&mut again);
        assert_eq!(again, body[..Probe::BYTES]);
    }
    again.clear();
    if let Ok(feedback) = Feedback::parse(body) {
        assert!((0.0..=1.0).contains(&feedback.loss_event_rate));
        feedback.emit(&mut again);
        // But for the loss event rate, which is rounded.
        assert_eq!(again[..14], body[..14]);
        assert_eq!(again[FEEDBACK_BYTES - 1..], body[FEEDBACK_BYTES - 1..]);
    }
    again.clear();
    if let Ok(report) = Report::parse(body) {
        assert!((0.0..=1.0).contains(&report.loss_event_rate));
        report.emit(&mut again);
        // But for the loss event rate, which is rounded.
        assert_eq!(again[..14], body[..14]);
        assert_eq!(again[18..], body[18..]);
    }
    again.clear();
    if let Ok((signal, payload)) = Signal::parse(body) {
        signal.emit(&mut again);
        again.extend_from_slice(payload);
        assert_eq!(again, body);
    }
    again.clear();
    if let Ok(welcome) = Welcome::parse(body) {
        welcome.emit(&mut again);
        assert_eq!(again, body[..6]);
    }
});
