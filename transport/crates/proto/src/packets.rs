//! The datagrams of one connection: numbered and sealed on their way out; opened, and let in once, on their way in.

use rustls::quic::PacketKey;
use wire::packet::{HEADER_BYTES, Header, Kind, MAX_NUMBER, TAG_BYTES, symbol_datagram_bytes};

use crate::protect::{Forged, Protection, ReplayWindow};

/// One end of a connection's data channel.
#[derive(Debug)]
pub(crate) struct Packets {
    connection: u32,
    protection: Protection,
    early: Option<EarlyKey>,
    replays: ReplayWindow,
    next_number: u64,
    dropped: Dropped,
}

/// The key of data that a client sends before the server has answered.
struct EarlyKey(Box<dyn PacketKey>);

impl std::fmt::Debug for EarlyKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EarlyKey")
    }
}

/// Datagrams that came and were not taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dropped {
    /// Malformed, of another connection, or of no use.
    pub(crate) unexpected: u64,
    /// They did not authenticate.
    pub(crate) forged: u64,
    /// They came a second time, or too late.
    pub(crate) replayed: u64,
}

impl std::ops::Add for Dropped {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        Dropped {
            unexpected: self.unexpected + more.unexpected,
            forged: self.forged + more.forged,
            replayed: self.replayed + more.replayed,
        }
    }
}

/// Whether a datagram is one about the path, whose numbers are none of the data channel's.
pub(crate) fn is_probe(datagram: &[u8]) -> bool {
    Header::parse(datagram).is_ok_and(|header| header.kind == Kind::Probe)
}

/// A datagram that is authentic, but may have come before.
pub(crate) struct Opened<'a> {
    pub(crate) kind: Kind,
    pub(crate) number: u64,
    pub(crate) body: &'a mut [u8],
}

impl Packets {
    pub(crate) fn new(connection: u32, protection: Protection) -> Self {
        let replays = ReplayWindow::new(&protection);
        Packets { connection, protection, early: None, replays, next_number: 0, dropped: Dropped::default() }
    }

    /// Those of a connection whose keys come later.
    pub(crate) fn before_keys(connection: u32) -> Self {
        Packets { replays: ReplayWindow::of(true), ..Packets::new(connection, Protection::insecure()) }
    }

    /// The keys are there.
    pub(crate) fn protect(&mut self, protection: Protection) {
        self.protection = protection;
    }

    /// The key of [`Kind::Early`] is there.
    pub(crate) fn protect_early(&mut self, key: Box<dyn PacketKey>) {
        self.early = Some(EarlyKey(key));
    }

    /// The connection.
    pub(crate) fn connection(&self) -> u32 {
        self.connection
    }

    /// Takes a number for a datagram that is sealed otherwise.
    pub(crate) fn take_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    /// The peer has named the connection.
    pub(crate) fn set_connection(&mut self, connection: u32) {
        self.connection = connection;
    }

    /// Opens a datagram of one of these kinds; what is none is counted.
    pub(crate) fn open<'a>(&mut self, kinds: &[Kind], datagram: &'a mut [u8]) -> Option<Opened<'a>> {
        let header = match Header::parse(datagram) {
            Ok(header) if header.connection == self.connection && kinds.contains(&header.kind) => header,
            _ => return self.unexpected(),
        };
        let opened = match (header.kind, &self.early) {
            (Kind::Early, Some(EarlyKey(key))) => {
                // It has a header, since that was parsed.
                let (clear, body) = datagram.split_at_mut(HEADER_BYTES);
                match key.decrypt_in_place(header.number, clear, body).map(<[u8]>::len) {
                    Ok(length) => Ok(&mut body[..length]),
                    Err(_) => Err(Forged),
                }
            }
            (Kind::Early, None) => Err(Forged),
            _ => self.protection.open(&header, datagram),
        };
        match opened {
            Ok(body) => Some(Opened { kind: header.kind, number: header.number, body }),
            Err(_) => {
                self.dropped.forged += 1;
                None
            }
        }
    }

    /// Lets in the datagram with this number, which was opened, unless it was let in before; that is counted.
    pub(crate) fn admit(&mut self, number: u64) -> bool {
        if !self.replays.admit(number) {
            self.dropped.replayed += 1;
            return false;
        }
        self.protection.passed(number);
        true
    }

    /// Counts a datagram that was of no use.
    pub(crate) fn unexpected<T>(&mut self) -> Option<T> {
        self.dropped.unexpected += 1;
        None
    }

    /// Appends a datagram to `buffer`: `body` appends what is in it, and is told its number. Returns the number.
    pub(crate) fn seal(
        &mut self,
        kind: Kind,
        buffer: &mut Vec<u8>,
        body: impl FnOnce(u64, &mut Vec<u8>),
    ) -> u64 {
        let (begin, number) = (buffer.len(), self.next_number);
        debug_assert!(number <= MAX_NUMBER, "2^48 datagrams were sent");
        self.next_number += 1;
        Header { kind, connection: self.connection, number }.emit(buffer);
        body(number, buffer);
        match (kind, &self.early) {
            (Kind::Early, Some(EarlyKey(key))) => {
                let (header, body) = buffer[begin..].split_at_mut(HEADER_BYTES);
                let tag = key.encrypt_in_place(number, header, body);
                buffer.extend_from_slice(tag.expect("a datagram is shorter than AES-GCM's limit").as_ref());
            }
            _ => self.protection.seal(number, buffer, begin),
        }
        number
    }

    /// The number of the next datagram that goes out.
    pub(crate) fn next_number(&self) -> u64 {
        self.next_number
    }

    /// What sealing adds to a datagram.
    pub(crate) fn tag_bytes(&self) -> usize {
        if self.protection.is_on() || self.early.is_some() { TAG_BYTES } else { 0 }
    }

    /// Bytes of a datagram with a symbol.
    pub(crate) fn symbol_datagram_bytes(&self, symbol_bytes: u16) -> usize {
        symbol_datagram_bytes(symbol_bytes.into(), self.protection.is_on())
    }

    pub(crate) fn dropped(&self) -> Dropped {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protect::{SECRET_BYTES, Side};

    fn pair(protected: bool) -> (Packets, Packets) {
        let end = |side| {
            let protection = Protection::new(&[3; SECRET_BYTES], side);
            Packets::new(7, if protected { protection } else { Protection::insecure() })
        };
        (end(Side::Client), end(Side::Server))
    }

    fn datagram(by: &mut Packets, kind: Kind) -> Vec<u8> {
        let mut buffer = Vec::new();
        by.seal(kind, &mut buffer, |_, body| body.extend_from_slice(b"body"));
        buffer
    }

    #[test]
    fn each_datagram_is_let_in_once_whatever_comes_between() {
        for protected in [false, true] {
            let (mut client, mut server) = pair(protected);
            let sent: Vec<_> = (0..3).map(|_| datagram(&mut client, Kind::Feedback)).collect();
            for n in [2, 0, 2, 1, 0] {
                let mut copy = sent[n].clone();
                let opened = server.open(&[Kind::Feedback], &mut copy).unwrap();
                assert_eq!((opened.number, &*opened.body), (n as u64, &b"body"[..]));
                let number = opened.number;
                server.admit(number);
            }
            assert_eq!(server.dropped(), Dropped { replayed: 2, ..Dropped::default() }, "{protected}");
        }
    }

    #[test]
    fn what_is_not_taken_is_counted_by_its_reason() {
        let (mut client, mut server) = pair(true);
        let good = datagram(&mut client, Kind::Feedback);
        assert!(server.open(&[Kind::Hello], &mut good.clone()).is_none(), "of another kind");
        assert!(server.open(&[Kind::Feedback], &mut good[..5].to_vec()).is_none(), "too short");
        let mut other = good.clone();
        other[4] ^= 1;
        assert!(server.open(&[Kind::Feedback], &mut other).is_none(), "of another connection");
        let mut forged = good.clone();
        *forged.last_mut().unwrap() ^= 1;
        assert!(server.open(&[Kind::Feedback], &mut forged).is_none());
        assert_eq!(server.dropped(), Dropped { unexpected: 3, forged: 1, replayed: 0 });
        assert!(server.open(&[Kind::Feedback], &mut good.clone()).is_some(), "none of them did harm");
    }
}
