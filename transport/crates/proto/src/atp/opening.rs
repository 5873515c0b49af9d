//! How a connection is opened: TLS 1.3, without its records, in datagrams of which any may be lost (RFC 9001, section 4).
//!
//! The client's and the server's hello go in clear, the rest under keys of the handshake. Each is a stream of bytes whose pieces are
//! acknowledged and sent again. What fits into one datagram is sent twice at once: as a parity of one packet, for the same reason.
//! Until the client has shown that it is where it says, the server sends no more than three times what came (RFC 9000, section 8.1).

use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::quic::{Connection as Tls, KeyChange, Keys, PacketKey, Secrets};
use wire::atp::{Crypto, MAX_TOKEN_BYTES};
use wire::packet::{HEADER_BYTES, Header, Kind, TAG_BYTES};

use super::interface::KnownServer;
use super::receive_stream::ReceiveStream;
use super::send_stream::SendStream;
use crate::Time;
use crate::channel::Broken;
use crate::ecn::Codepoint;
use crate::protect::{Protection, Side};

/// What either direction of a handshake may have in all, at one level.
const MOST_BYTES: u64 = 64 << 10;
/// Before anything is known of the path.
const FIRST_TIMEOUT: Duration = Duration::from_millis(20);
/// Where a server's round trip is known, it is given so many of them, and what its TLS may take.
const ROUND_TRIPS: u32 = 3;
const LEAST_TIMEOUT: Duration = Duration::from_millis(5);
const LONGEST_TIMEOUT: Duration = Duration::from_secs(1);
/// What the other end seems to lack is sent again, but no more often.
const AGAIN: Duration = Duration::from_millis(1);
/// A client that has no token sends so much at once, so that the server may answer with its certificate.
const PADDED_BYTES: usize = 1200;
/// How many times what came a server sends.
const AMPLIFICATION: u64 = 3;
/// Datagrams that came before the keys for them, and their bytes in all.
const MOST_HELD: usize = 16;
const MOST_HELD_BYTES: usize = 24 << 10;
/// What all that may make an end hold: both levels, and what is kept.
pub(crate) const MOST_HELD_IN_ALL_BYTES: usize = 2 * MOST_BYTES as usize + MOST_HELD_BYTES;

/// One of the streams that a handshake consists of.
#[derive(Debug)]
struct Level {
    out: SendStream,
    came: ReceiveStream,
    /// What has been sent is to be sent once more.
    copy: bool,
    /// The peer is to be told what has come.
    owes: bool,
}

impl Level {
    fn new() -> Self {
        let (out, came) = (SendStream::new(u64::MAX), ReceiveStream::new(MOST_BYTES));
        Level { out, came, copy: false, owes: false }
    }

    fn is_due(&self) -> bool {
        self.owes || self.out.is_pending(u64::MAX)
    }
}

/// A connection that is being opened.
pub(crate) struct Opening {
    tls: Tls,
    side: Side,
    /// In clear, and under the handshake's keys.
    levels: [Level; 2],
    keys: Option<Keys>,
    /// Of packets with frames, until they are taken.
    packets: Option<(Keys, Secrets)>,
    /// Where TLS's next output belongs; beyond the levels: to what is said after the handshake.
    writing: usize,
    /// What TLS says after the handshake.
    after: Vec<u8>,
    /// Shows that the client is where it says.
    token: Vec<u8>,
    /// A client's first datagram is as long as [`PADDED_BYTES`].
    pads: bool,
    timer: Option<Time>,
    first_timeout: Duration,
    timeout: Duration,
    /// When it was last sent, and first.
    sent: Option<Time>,
    first_sent: Option<Time>,
    repeated: bool,
    was_asked_again: bool,
    /// The client is where it says; before, so many bytes have come and were sent.
    is_validated: bool,
    came_bytes: u64,
    sent_bytes: u64,
    held: Vec<(Codepoint, Vec<u8>)>,
}

impl std::fmt::Debug for Opening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opening")
            .field("side", &self.side)
            .field("levels", &self.levels)
            .finish_non_exhaustive()
    }
}

impl Opening {
    /// A client's end, with what it knows of the server, and whether that is a stranger that may have to show its certificate.
    pub(crate) fn client(tls: rustls::quic::ClientConnection, known: KnownServer, pads: bool) -> Self {
        let first =
            known.rtt.map_or(FIRST_TIMEOUT, |rtt| (ROUND_TRIPS * rtt).clamp(LEAST_TIMEOUT, LONGEST_TIMEOUT));
        let opening = Opening::new(Tls::Client(tls), Side::Client, known.token);
        Opening { is_validated: true, pads, first_timeout: first, timeout: first, ..opening }
    }

    /// A server's end. `is_validated`: the client's token was good.
    pub(crate) fn server(tls: rustls::quic::ServerConnection, is_validated: bool) -> Self {
        Opening { is_validated, ..Opening::new(Tls::Server(tls), Side::Server, Vec::new()) }
    }

    fn new(tls: Tls, side: Side, token: Vec<u8>) -> Self {
        let mut opening = Opening {
            tls,
            side,
            levels: [Level::new(), Level::new()],
            keys: None,
            packets: None,
            writing: 0,
            after: Vec::new(),
            token,
            pads: false,
            timer: None,
            first_timeout: FIRST_TIMEOUT,
            timeout: FIRST_TIMEOUT,
            sent: None,
            first_sent: None,
            repeated: false,
            was_asked_again: false,
            is_validated: false,
            came_bytes: 0,
            sent_bytes: 0,
            held: Vec::new(),
        };
        opening.take_output();
        opening
    }

    /// Takes what TLS wants to say.
    fn take_output(&mut self) {
        loop {
            let mut bytes = Vec::new();
            let change = self.tls.write_hs(&mut bytes);
            let is_over = bytes.is_empty() && change.is_none();
            match self.levels.get_mut(self.writing) {
                Some(level) if !bytes.is_empty() => {
                    level.out.write(&bytes);
                    level.copy = true;
                }
                Some(_) => {}
                None => self.after.extend_from_slice(&bytes),
            }
            match change {
                Some(KeyChange::Handshake { keys }) => (self.keys, self.writing) = (Some(keys), 1),
                Some(KeyChange::OneRtt { keys, next }) => {
                    (self.packets, self.writing) = (Some((keys, next)), 2);
                }
                None if is_over => return,
                None => {}
            }
        }
    }

    /// The keys for packets with frames, once. A server has them to send with before the client has shown that it has the same:
    /// what comes under them counts only when the handshake [is through](Opening::is_through).
    pub(crate) fn take_protection(&mut self) -> Option<Protection> {
        self.packets.take().map(|(keys, next)| Protection::of_handshake(keys, next))
    }

    /// The key for what a client sends before the server has answered, if both ends allow that.
    pub(crate) fn early_key(&self) -> Option<Box<dyn PacketKey>> {
        self.tls.zero_rtt_keys().map(|keys| keys.packet)
    }

    /// The peer's certificate, if it has shown one.
    pub(crate) fn peer_certificate(&self) -> Option<CertificateDer<'static>> {
        Some(self.tls.peer_certificates()?.first()?.clone().into_owned())
    }

    /// Whether the server takes what was sent before it had answered.
    pub(crate) fn takes_early(&self) -> bool {
        matches!(&self.tls, Tls::Client(tls) if tls.is_early_data_accepted())
    }

    /// Whether each end has shown that it has the keys.
    pub(crate) fn is_through(&self) -> bool {
        !self.tls.is_handshaking()
    }

    /// Whether the client has shown that it is where it says.
    pub(crate) fn is_validated(&self) -> bool {
        self.is_validated
    }

    /// A server that has heard the hello asks for it once more, with this token. It counts once, and only before anything else
    /// has come.
    pub(crate) fn on_retry(&mut self, token: &[u8]) {
        let is_first = self.levels.iter().all(|level| level.came.consumed() == 0) && !self.was_asked_again;
        if self.side == Side::Client && is_first && token.len() <= MAX_TOKEN_BYTES && !token.is_empty() {
            self.was_asked_again = true;
            self.token = token.to_vec();
            self.levels[0].out.on_lost(0..self.levels[0].out.next_offset(), false);
            self.levels[0].copy = true;
            self.repeated = true;
        }
    }

    /// Whether pieces can be opened that are under the handshake's keys.
    pub(crate) fn has_keys(&self) -> bool {
        self.keys.is_some()
    }

    /// What is left of it once it is over: TLS, and what that still wants to say.
    pub(crate) fn into_rest(self) -> (Tls, Vec<u8>) {
        (self.tls, self.after)
    }

    /// The round trip, if one was measured: the first answer to what was sent once only.
    pub(crate) fn rtt(&self, now: Time) -> Option<Duration> {
        self.first_sent.filter(|_| !self.repeated).map(|sent| now.since(sent))
    }

    // What comes

    /// Bytes have come from where the client says that it is.
    pub(crate) fn count(&mut self, bytes: usize) {
        self.came_bytes = self.came_bytes.saturating_add(bytes as u64);
    }

    /// Keeps a datagram for which there are no keys yet: perhaps what they follow from comes later, or has been lost.
    pub(crate) fn hold(&mut self, now: Time, ecn: Codepoint, datagram: &[u8]) {
        let held: usize = self.held.iter().map(|(_, datagram)| datagram.len()).sum();
        if self.held.len() < MOST_HELD && held + datagram.len() <= MOST_HELD_BYTES {
            self.held.push((ecn, datagram.to_vec()));
        }
        self.repeat(now);
    }

    /// What was kept, once there are keys.
    pub(crate) fn take_held(&mut self) -> Vec<(Codepoint, Vec<u8>)> {
        std::mem::take(&mut self.held)
    }

    /// Opens a datagram under the handshake's keys, and handles it. None if it cannot be opened yet.
    ///
    /// # Errors
    /// What TLS does not accept.
    pub(crate) fn on_sealed(
        &mut self,
        now: Time,
        header: &Header,
        datagram: &mut [u8],
    ) -> Option<Result<bool, String>> {
        let keys = self.keys.as_ref()?;
        let (clear, body) = datagram.split_at_mut(HEADER_BYTES.min(datagram.len()));
        let Ok(body) = keys.remote.packet.decrypt_in_place(header.number, clear, body) else {
            return Some(Ok(false));
        };
        let Ok(crypto) = Crypto::parse(body) else { return Some(Ok(false)) };
        // Only who has got the whole hello can have made it.
        self.is_validated = true;
        let hello = &mut self.levels[0].out;
        hello.on_acknowledged(0..hello.next_offset(), false);
        Some(self.on_crypto(now, 1, &crypto).map(|()| true))
    }

    /// A piece of what is in clear has come.
    ///
    /// # Errors
    /// What TLS does not accept.
    pub(crate) fn on_clear(&mut self, now: Time, crypto: &Crypto<'_>) -> Result<(), String> {
        self.on_crypto(now, 0, crypto)
    }

    fn on_crypto(&mut self, now: Time, at: usize, crypto: &Crypto<'_>) -> Result<(), String> {
        let level = &mut self.levels[at];
        let new =
            !crypto.payload.is_empty() && crypto.offset + crypto.payload.len() as u64 > level.came.consumed();
        if level.out.on_acknowledged(0..crypto.acknowledged.min(level.out.next_offset()), false) > 0 {
            self.timeout = self.first_timeout;
        }
        level.owes |= !crypto.payload.is_empty();
        if !new {
            // The peer has not heard the answer to what it says again.
            if !crypto.payload.is_empty() {
                self.repeat(now);
            }
            return Ok(());
        }
        // Nothing but a broken or hostile peer says more than fits.
        level
            .came
            .insert(crypto.offset, crypto.payload, false)
            .map_err(|_| "a handshake without end".to_owned())?;
        let mut bytes = vec![0; level.came.readable()];
        level.came.read(&mut bytes);
        if !bytes.is_empty() {
            self.tls.read_hs(&bytes).map_err(|error| Broken::Tls(error).to_string())?;
            self.take_output();
        }
        Ok(())
    }

    /// All that the peer has not acknowledged is to be sent again, unless it was sent just now.
    fn repeat(&mut self, now: Time) {
        if self.sent.is_some_and(|sent| now.since(sent) < AGAIN) {
            return;
        }
        for level in &mut self.levels {
            level.out.on_lost(0..level.out.next_offset(), false);
        }
        self.repeated = true;
    }

    // What is sent

    /// Whether something is to be sent, and may be.
    pub(crate) fn is_due(&self) -> bool {
        let sealed = self.keys.is_some() && self.levels[1].is_due();
        (self.levels[0].is_due() || sealed) && self.may_send(PADDED_BYTES)
    }

    /// Whether a datagram of so many bytes may be sent to where the client says that it is.
    pub(crate) fn may_send(&self, bytes: usize) -> bool {
        self.is_validated || self.sent_bytes + bytes as u64 <= AMPLIFICATION * self.came_bytes
    }

    /// A datagram of so many bytes was sent.
    pub(crate) fn on_sent(&mut self, bytes: usize) {
        self.sent_bytes += bytes as u64;
    }

    /// Appends the next datagram, of no more than `most` bytes, with this number of this connection.
    pub(crate) fn emit(
        &mut self,
        now: Time,
        connection: u32,
        number: u64,
        most: usize,
        buffer: &mut Vec<u8>,
    ) {
        // What is under the handshake's keys says that the hello has come, too.
        let at = usize::from(!self.levels[0].out.is_pending(u64::MAX) && self.keys.is_some());
        self.levels[0].owes = false;
        let (begin, level) = (buffer.len(), &mut self.levels[at]);
        let room = most - HEADER_BYTES - TAG_BYTES - self.token.len() - 4 * 8;
        let piece = level.out.take(room, u64::MAX);
        let mut payload = Vec::new();
        let mut offset = level.out.next_offset();
        if let Some(piece) = piece {
            offset = piece.bytes.start;
            level.out.copy(piece.bytes, &mut payload);
        }
        // A second copy of what one datagram carries.
        if !level.out.is_pending(u64::MAX)
            && std::mem::take(&mut level.copy)
            && offset == level.out.first_offset()
        {
            level.out.on_lost(0..level.out.next_offset(), false);
        }
        level.owes = false;
        let crypto = Crypto { offset, acknowledged: level.came.consumed(), payload: &payload };
        let kind = if at == 0 { Kind::Initial } else { Kind::Handshake };
        Header { kind, connection, number }.emit(buffer);
        if at == 0 {
            crypto.emit_initial(&self.token, buffer);
            if self.pads && self.side == Side::Client {
                buffer.resize(buffer.len().max(begin + PADDED_BYTES.min(most)), 0);
            }
        } else if let Some(keys) = &self.keys {
            crypto.emit(buffer);
            let (header, body) = buffer[begin..].split_at_mut(HEADER_BYTES);
            // It fails for what is longer than any datagram.
            if let Ok(tag) = keys.local.packet.encrypt_in_place(number, header, body) {
                buffer.extend_from_slice(tag.as_ref());
            }
        }
        self.sent = Some(now);
        self.first_sent.get_or_insert(now);
        self.timer = Some(now + self.timeout);
        self.on_sent(buffer.len() - begin);
    }

    /// Whether something may have to be sent although nothing comes: what was not acknowledged; and by a client until TLS is through, since
    /// its server may have sent as much as it is allowed to (RFC 9002, section 6.2.2.1).
    fn waits(&self) -> bool {
        let is_unfinished = self.side == Side::Client && !self.is_through();
        is_unfinished || self.levels.iter().any(|level| level.out.held_bytes() > 0)
    }

    /// When [`Opening::handle_timeout`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.timer.filter(|_| self.waits())
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        if self.waits() && self.timer.take_if(|at| *at <= now).is_some() {
            self.timeout = (2 * self.timeout).min(LONGEST_TIMEOUT);
            self.sent = None;
            self.repeat(now);
            if self.side == Side::Client {
                self.levels[usize::from(self.keys.is_some())].owes = true;
            }
            self.timer = Some(now + self.timeout);
        }
    }
}
