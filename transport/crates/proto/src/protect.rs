//! Protection of datagrams: AES-GCM with keys from the control channel's exporter, or from ATP's handshake, and a window against
//! replays.
//!
//! The header is authenticated, the body encrypted. The nonce is the packet number, which no sender uses twice;
//! keys change every 2^22 numbers, so that no key protects more than AES-GCM's safe share (RFC 9001, appendix B.1).

use std::sync::Arc;

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk};
use rustls::CipherSuite;
use rustls::crypto::CryptoProvider;
use rustls::quic::{PacketKey, Secrets};
use thiserror::Error;
use wire::packet::{HEADER_BYTES, Header, TAG_BYTES};

/// Labels for the TLS exporter (RFC 8446, section 7.5) that both sides call without a context.
pub const LTTP_LABEL: &[u8] = b"EXPORTER-weir-lttp-1";
/// The same for DFCP.
pub const DFCP_LABEL: &[u8] = b"EXPORTER-weir-dfcp-1";
/// The same for DFCP's signals.
pub const DFCP_SIGNAL_LABEL: &[u8] = b"EXPORTER-weir-dfcp-signal-1";
/// Bytes to export.
pub const SECRET_BYTES: usize = 32;

const EPOCH_BITS: u32 = 22;

/// What keys are for (HKDF's info, RFC 5869).
const DATA: &[u8] = b"weir lttp data";
const BESIDE: &[u8] = b"weir lttp beside";

/// What TLS is done with: ring's, and AES-128 before what else there is, as it is what seals the data of LTTP and DFCP. SHA-256, which goes with
/// it and for which processors have instructions, takes a tenth off a handshake beside the SHA-384 of AES-256.
pub fn cryptography() -> Arc<CryptoProvider> {
    let mut provider = rustls::crypto::ring::default_provider();
    provider.cipher_suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    Arc::new(provider)
}

/// Which end of the connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Has opened the connection.
    Client,
    /// Has answered.
    Server,
}

/// A datagram that was not made by the peer, or was changed on its way.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("a datagram that does not authenticate")]
pub struct Forged;

/// Seals what goes out and opens what comes in. Two numberings need two of them: of two secrets, or one [beside] the other.
///
/// [beside]: Protection::beside
pub struct Protection(Option<Keys>);

impl std::fmt::Debug for Protection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_on() { "Protection(on)" } else { "Protection(off)" })
    }
}

struct Keys {
    outgoing: Direction,
    incoming: Direction,
}

impl Protection {
    /// No protection at all, for experiments.
    pub fn insecure() -> Self {
        Protection(None)
    }

    /// Keys of both directions from the exported secret.
    pub fn new(secret: &[u8; SECRET_BYTES], side: Side) -> Self {
        let direction = |by| Direction::new(secret, by);
        Protection(Some(match side {
            Side::Client => Keys { outgoing: direction(Side::Client), incoming: direction(Side::Server) },
            Side::Server => Keys { outgoing: direction(Side::Server), incoming: direction(Side::Client) },
        }))
    }

    /// The keys of a handshake of TLS without its records (RFC 9001): those to begin with, and where the next ones come from.
    pub fn of_handshake(keys: rustls::quic::Keys, next: Secrets) -> Self {
        let source = |local| Source::Handshake { next: next.clone(), local };
        let direction = |key, local| Direction::beginning(EpochKey::Handshake(key), source(local));
        let (local, remote) = (keys.local.packet, keys.remote.packet);
        Protection(Some(Keys { outgoing: direction(local, true), incoming: direction(remote, false) }))
    }

    /// Other keys of the same exported secret, for a numbering beside the one of this.
    #[must_use]
    pub fn beside(&self) -> Self {
        let beside = |direction: &Direction| match &direction.source {
            Source::Exported { secret, by, .. } => Direction::exported(secret.clone(), BESIDE, *by),
            Source::Handshake { .. } => unreachable!("ATP has one numbering"),
        };
        Protection(
            self.0
                .as_ref()
                .map(|keys| Keys { outgoing: beside(&keys.outgoing), incoming: beside(&keys.incoming) }),
        )
    }

    /// Whether datagrams carry a tag.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Seals the datagram that begins at `begin` of `buffer` and ends with it; `number` is its header's.
    pub fn seal(&mut self, number: u64, buffer: &mut Vec<u8>, begin: usize) {
        let Some(keys) = &mut self.0 else { return };
        let (header, body) = buffer[begin..].split_at_mut(HEADER_BYTES);
        let tag = keys.outgoing.key_of(number).seal(number, header, body);
        buffer.extend_from_slice(&tag);
    }

    /// The body of a datagram whose header is `header`.
    ///
    /// # Errors
    /// [`Forged`], also for a number so far ahead that no loss explains it.
    pub fn open<'a>(&mut self, header: &Header, datagram: &'a mut [u8]) -> Result<&'a mut [u8], Forged> {
        let (clear, body) = datagram.split_at_mut(HEADER_BYTES.min(datagram.len()));
        let Some(keys) = &mut self.0 else { return Ok(body) };
        if body.len() < TAG_BYTES {
            return Err(Forged);
        }
        keys.incoming.key_of_peer(header.number).ok_or(Forged)?.open(header.number, clear, body)
    }
}

/// The keys of one direction: those of the present epoch and of the one before and after it.
struct Direction {
    source: Source,
    present: u64,
    keys: [Option<EpochKey>; 3],
}

/// Where keys come from.
enum Source {
    Exported {
        secret: Prk,
        /// What its keys are for.
        label: &'static [u8],
        by: Side,
    },
    Handshake {
        next: Secrets,
        /// For what goes out.
        local: bool,
    },
}

// There are six of a connection, and the large ones are used for every datagram.
#[allow(clippy::large_enum_variant)]
enum EpochKey {
    Exported { key: LessSafeKey, iv: [u8; 12] },
    Handshake(Box<dyn PacketKey>),
}

impl EpochKey {
    fn seal(&self, number: u64, header: &[u8], body: &mut [u8]) -> [u8; TAG_BYTES] {
        let mut bytes = [0; TAG_BYTES];
        match self {
            EpochKey::Exported { key, iv } => {
                let tag = key.seal_in_place_separate_tag(nonce(iv, number), Aad::from(header), body);
                bytes.copy_from_slice(tag.expect("a datagram is shorter than AES-GCM's limit").as_ref());
            }
            EpochKey::Handshake(key) => {
                let tag = key.encrypt_in_place(number, header, body);
                bytes.copy_from_slice(tag.expect("a datagram is shorter than AES-GCM's limit").as_ref());
            }
        }
        bytes
    }

    fn open<'a>(&self, number: u64, header: &[u8], body: &'a mut [u8]) -> Result<&'a mut [u8], Forged> {
        match self {
            EpochKey::Exported { key, iv } => {
                key.open_in_place(nonce(iv, number), Aad::from(header), body).map_err(|_| Forged)
            }
            EpochKey::Handshake(key) => {
                let length = key.decrypt_in_place(number, header, body).map_err(|_| Forged)?.len();
                Ok(&mut body[..length])
            }
        }
    }
}

fn nonce(iv: &[u8; 12], number: u64) -> Nonce {
    let mut nonce = *iv;
    for (byte, n) in nonce[4..].iter_mut().zip(number.to_be_bytes()) {
        *byte ^= n;
    }
    Nonce::assume_unique_for_key(nonce)
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

impl Source {
    /// The keys of an epoch. Those of a handshake are to be asked for in turn, from 1 on.
    fn derive(&mut self, epoch: u64) -> EpochKey {
        match self {
            Source::Exported { secret, label, by } => {
                let mut bytes = [0; 28];
                secret
                    .expand(&[*label, &[*by as u8], &epoch.to_be_bytes()], Length(bytes.len()))
                    .and_then(|okm| okm.fill(&mut bytes))
                    .expect("28 bytes are less than HKDF's limit");
                let (key, iv) = bytes.split_at(16);
                let key = UnboundKey::new(&AES_128_GCM, key).expect("16 bytes are AES-128's key");
                EpochKey::Exported { key: LessSafeKey::new(key), iv: iv.try_into().expect("28 - 16 = 12") }
            }
            Source::Handshake { next, local } => {
                let keys = next.next_packet_keys();
                EpochKey::Handshake(if *local { keys.local } else { keys.remote })
            }
        }
    }
}

impl Direction {
    fn new(secret: &[u8; SECRET_BYTES], by: Side) -> Self {
        Direction::exported(Prk::new_less_safe(HKDF_SHA256, secret), DATA, by)
    }

    fn exported(secret: Prk, label: &'static [u8], by: Side) -> Self {
        let mut source = Source::Exported { secret, label, by };
        Direction::beginning(source.derive(0), source)
    }

    fn beginning(first: EpochKey, mut source: Source) -> Self {
        let second = source.derive(1);
        Direction { source, present: 0, keys: [None, Some(first), Some(second)] }
    }

    fn advance(&mut self) {
        self.present += 1;
        self.keys.rotate_left(1);
        self.keys[2] = Some(self.source.derive(self.present + 1));
    }

    fn key_of(&mut self, number: u64) -> &EpochKey {
        while number >> EPOCH_BITS > self.present {
            self.advance();
        }
        self.keys[1].as_ref().expect("the present epoch has a key")
    }

    /// The key of a number that a datagram claims. The epoch moves on only by [`Direction::passed`]'s word.
    fn key_of_peer(&mut self, number: u64) -> Option<&EpochKey> {
        let epoch = number >> EPOCH_BITS;
        let slot = (epoch + 1).checked_sub(self.present)?;
        self.keys.get(usize::try_from(slot).ok()?)?.as_ref()
    }
}

impl Protection {
    /// Tells that a datagram with this number was authentic.
    pub fn passed(&mut self, number: u64) {
        let Some(keys) = &mut self.0 else { return };
        if number >> EPOCH_BITS > keys.incoming.present {
            keys.incoming.advance();
        }
    }
}

/// Which packet numbers were seen: each is let through once, those far behind the highest never.
///
/// Without authentication a number far ahead may be a damaged one, after which none would be new any more: it is let
/// through only when it follows the one before it (as RFC 3550, appendix A.1, has it for RTP).
#[derive(Debug)]
pub struct ReplayWindow {
    authentic: bool,
    /// The last number that was far ahead and not believed.
    leapt: Option<u64>,
    highest: Option<u64>,
    seen: [u64; ReplayWindow::WORDS],
}

impl ReplayWindow {
    const WORDS: usize = 64;
    /// How far behind the highest a number may come.
    pub const REACH: u64 = 64 * Self::WORDS as u64 - 64;

    /// A window for numbers that `protection` has let through.
    pub fn new(protection: &Protection) -> Self {
        Self::of(protection.is_on())
    }

    /// A window for numbers that are authentic, or perhaps not.
    pub(crate) fn of(authentic: bool) -> Self {
        ReplayWindow { authentic, leapt: None, highest: None, seen: [0; Self::WORDS] }
    }

    /// Whether `number` is new; it is not from then on.
    pub fn admit(&mut self, number: u64) -> bool {
        let far = number.saturating_sub(self.highest.unwrap_or(0)) > Self::REACH;
        if far && !self.authentic && self.leapt.replace(number) != number.checked_sub(1) {
            return false;
        }
        let word = |n: u64| (n / 64) as usize % Self::WORDS;
        match self.highest {
            Some(highest) if number <= highest => {
                if highest - number > Self::REACH {
                    return false;
                }
            }
            highest => {
                let first = highest.map_or(0, |h| h / 64 + 1);
                let last = number / 64;
                for w in first.max(last.saturating_sub(Self::WORDS as u64 - 1))..=last {
                    self.seen[w as usize % Self::WORDS] = 0;
                }
                self.highest = Some(number);
            }
        }
        let bit = 1 << (number % 64);
        let fresh = self.seen[word(number)] & bit == 0;
        self.seen[word(number)] |= bit;
        fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::packet::Kind;

    fn pair() -> (Protection, Protection) {
        let secret = [7; SECRET_BYTES];
        (Protection::new(&secret, Side::Client), Protection::new(&secret, Side::Server))
    }

    fn sealed(by: &mut Protection, number: u64, body: &[u8]) -> (Header, Vec<u8>) {
        let header = Header { kind: Kind::Symbol, connection: 9, number };
        let mut datagram = Vec::new();
        header.emit(&mut datagram);
        datagram.extend_from_slice(body);
        by.seal(number, &mut datagram, 0);
        (header, datagram)
    }

    #[test]
    fn what_one_side_seals_the_other_opens_and_nobody_else() {
        let (mut client, mut server) = pair();
        let (header, datagram) = sealed(&mut server, 5, b"symbol");
        assert_eq!(client.open(&header, &mut datagram.clone()), Ok(&mut b"symbol".to_vec()[..]));
        assert_eq!(server.open(&header, &mut datagram.clone()), Err(Forged), "reflected");
        for i in 0..datagram.len() {
            let mut changed = datagram.clone();
            changed[i] ^= 1;
            // The parsed header is what the receiver acts on: one bit of it changes the nonce or the authenticated bytes.
            let header = Header::parse(&changed).unwrap_or(header);
            assert_eq!(client.open(&header, &mut changed), Err(Forged), "bit of byte {i}");
        }
        for length in 0..datagram.len() {
            assert_eq!(client.open(&header, &mut datagram[..length].to_vec()), Err(Forged));
        }
    }

    #[test]
    fn keys_beside_others_open_nothing_of_theirs() {
        let (mut client, mut server) = pair();
        let (mut client_beside, mut server_beside) = (client.beside(), server.beside());
        let (header, datagram) = sealed(&mut server, 5, b"symbol");
        assert_eq!(client_beside.open(&header, &mut datagram.clone()), Err(Forged));
        let (header, datagram) = sealed(&mut server_beside, 5, b"probe");
        assert_eq!(client.open(&header, &mut datagram.clone()), Err(Forged));
        assert_eq!(client_beside.open(&header, &mut datagram.clone()), Ok(&mut b"probe".to_vec()[..]));
        assert!(!Protection::insecure().beside().is_on());
    }

    #[test]
    fn keys_change_with_the_epoch_and_far_numbers_cost_nothing() {
        let (mut client, mut server) = pair();
        for epoch in 0..5 {
            let number = (epoch << EPOCH_BITS) + 3;
            let (header, mut datagram) = sealed(&mut server, number, b"x");
            assert!(client.open(&header, &mut datagram).is_ok(), "epoch {epoch}");
            client.passed(number);
        }
        let (header, mut datagram) = sealed(&mut server, 40 << EPOCH_BITS, b"x");
        assert_eq!(client.open(&header, &mut datagram), Err(Forged));
    }

    #[test]
    fn every_number_passes_once() {
        let mut window = ReplayWindow::new(&pair().0);
        for n in [0, 1, 5, 3, 700, 64, 63, 100_000, 99_999] {
            assert!(window.admit(n), "{n}");
            assert!(!window.admit(n), "{n} again");
        }
        assert!(!window.admit(99_999 - ReplayWindow::REACH - 1), "too old");
        assert!(window.admit(100_000 - ReplayWindow::REACH));
    }

    #[test]
    fn a_damaged_number_does_not_end_the_connection_and_a_gap_does_not_either() {
        let mut window = ReplayWindow::new(&Protection::insecure());
        assert!((0..100).all(|n| window.admit(n)));
        assert!(!window.admit(1 << 40));
        assert!(!window.admit(1 << 41));
        assert!((100..200).all(|n| window.admit(n)), "none is new after a damaged one");
        assert!(!window.admit(1_000_000), "the first after a gap is not believed");
        assert!((1_000_001..1_000_100).all(|n| window.admit(n)));
        assert!(!window.admit(150));
    }

    #[test]
    fn the_window_agrees_with_a_set() {
        let (mut window, mut set, mut state, mut highest) =
            (ReplayWindow::new(&pair().0), std::collections::HashSet::new(), 1_u64, 0);
        for step in 0..200_000_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let n = (step / 2 + (state >> 52)).saturating_sub(2_000);
            let expected = highest.max(n) - n <= ReplayWindow::REACH && set.insert(n);
            assert_eq!(window.admit(n), expected, "{n} with {highest}");
            highest = highest.max(n);
        }
    }
}
