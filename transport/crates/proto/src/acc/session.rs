//! What two hosts share: keys from a handshake by a key that both have, and what has come under them.
//!
//! The one that asks sends a nonce, the one that answers another; both are under a code by the key that all hosts share, over the two
//! addresses as well, so that neither can be replayed between others. Keys of a direction come from the shared one and both nonces
//! (HKDF, RFC 5869), so that no two sessions have the same. Packets are sealed by AES-128-GCM. (To authenticate them alone would cost more: what is
//! encrypted goes through wide registers with what it is authenticated by, associated data does not.)

use std::net::IpAddr;

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use ring::hmac;
use subtle::ConstantTimeEq;
use wire::acc::{CODE_BYTES, Envelope, Hello, NONCE_BYTES, PACKET_BYTES, TAG_BYTES};

use super::packet::Pair;
use crate::protect::{Forged, ReplayWindow};

/// Bytes of the key that hosts share.
pub const KEY_BYTES: usize = 32;
const HELLOS: &[u8] = b"weir acc hello";
const NONCES: &[u8] = b"weir acc nonce";
const PACKETS: &[u8] = b"weir acc packet";

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn expand<const N: usize>(secret: &Prk, info: &[&[u8]]) -> [u8; N] {
    let mut bytes = [0; N];
    let filled = secret.expand(info, Length(N)).and_then(|okm| okm.fill(&mut bytes));
    filled.expect("a few bytes are less than HKDF's limit");
    bytes
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// The key that all hosts share.
pub(super) struct SharedKey {
    hellos: hmac::Key,
    packets: Prk,
}

impl SharedKey {
    pub(super) fn new(key: &[u8; KEY_BYTES]) -> Self {
        let secret = Prk::new_less_safe(HKDF_SHA256, key);
        let hellos: [u8; 32] = expand(&secret, &[HELLOS]);
        SharedKey { hellos: hmac::Key::new(hmac::HMAC_SHA256, &hellos), packets: secret }
    }

    /// The code of a probe (`asked` is none) or of the answer to the one with the nonce `asked`, sent over `pair`.
    pub(super) fn code(&self, pair: &Pair, hello: &[u8], asked: Option<&[u8]>) -> [u8; CODE_BYTES] {
        let mut context = hmac::Context::with_key(&self.hellos);
        for part in [hello, &octets(pair.local), &octets(pair.remote), asked.unwrap_or_default()] {
            context.update(part);
        }
        *context.sign().as_ref().first_chunk().expect("SHA-256 has 32 bytes")
    }

    /// Whether a code that has come over `pair` is right.
    pub(super) fn verify(
        &self,
        pair: &Pair,
        hello: &[u8],
        asked: Option<&[u8]>,
        code: &[u8; CODE_BYTES],
    ) -> Result<(), Forged> {
        let there = Pair { local: pair.remote, remote: pair.local };
        if self.code(&there, hello, asked).ct_eq(code).into() { Ok(()) } else { Err(Forged) }
    }

    #[allow(clippy::too_many_arguments)]
    /// The keys of a session with the peer at `port`: `we_asked` tells which of the two nonces was ours.
    pub(super) fn session(
        &self,
        pair: &Pair,
        port: u16,
        asked: &Hello,
        answered: &Hello,
        we_asked: bool,
        ours: u32,
    ) -> Session {
        let (asker, answerer) = if we_asked { (pair.local, pair.remote) } else { (pair.remote, pair.local) };
        let key = |by_asker: bool| {
            let info: [&[u8]; 6] = [
                PACKETS,
                &[by_asker.into()],
                &asked.nonce,
                &answered.nonce,
                &octets(asker),
                &octets(answerer),
            ];
            let bytes: [u8; 16] = expand(&self.packets, &info);
            LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &bytes).expect("16 bytes are AES-128's key"))
        };
        let theirs = if we_asked { answered.answers.unwrap_or(0) } else { asked.session };
        Session {
            ours,
            theirs,
            port,
            seal: key(we_asked),
            open: key(!we_asked),
            counter: 0,
            came: ReplayWindow::of(true),
            highest: 0,
        }
    }
}

/// Where nonces come from: a secret that nobody knows.
pub(super) struct Nonces {
    secret: Prk,
    count: u64,
}

impl Nonces {
    pub(super) fn new(seed: &[u8; 32]) -> Self {
        Nonces { secret: Salt::new(HKDF_SHA256, NONCES).extract(seed), count: 0 }
    }

    pub(super) fn next(&mut self) -> [u8; NONCE_BYTES] {
        self.count += 1;
        expand(&self.secret, &[&self.count.to_be_bytes()])
    }

    /// A number that nobody can foretell.
    pub(super) fn next_number(&mut self) -> u32 {
        let [a, b, c, d, ..] = self.next();
        u32::from_be_bytes([a, b, c, d])
    }
}

/// Keys, and which packets have been sent and have come under them.
pub(super) struct Session {
    /// What we call it, and what the peer does.
    pub(super) ours: u32,
    pub(super) theirs: u32,
    /// Where the peer is.
    pub(super) port: u16,
    seal: LessSafeKey,
    open: LessSafeKey,
    counter: u64,
    came: ReplayWindow,
    highest: u64,
}

impl Session {
    /// The number of the next packet.
    pub(super) fn counter(&self) -> u64 {
        self.counter
    }

    /// Seals the next packet, which begins at `begin` and ends with `bytes`, as it is to be.
    pub(super) fn seal(&mut self, envelope: &Envelope, bytes: &mut Vec<u8>, begin: usize) {
        let (covered, is_clear) = envelope.covered_bytes();
        let (clear, body) = bytes[begin..].split_at_mut(covered);
        let body = if is_clear { &mut [] } else { body };
        let tag = self.seal.seal_in_place_separate_tag(nonce(self.counter), Aad::from(clear), body);
        bytes.extend_from_slice(tag.expect("a datagram is shorter than AES-GCM's limit").as_ref());
        self.counter += 1;
    }

    /// What was sealed in a packet, if that is the peer's, and new.
    pub(super) fn open<'a>(
        &mut self,
        envelope: &Envelope,
        datagram: &'a mut [u8],
    ) -> Result<&'a [u8], Forged> {
        let counter = near(envelope.counter, self.highest);
        let (covered, is_clear) = envelope.covered_bytes();
        let end = datagram.len().checked_sub(TAG_BYTES).ok_or(Forged)?;
        let (clear, sealed) = datagram.split_at_mut_checked(covered).ok_or(Forged)?;
        let sealed = if is_clear { sealed.get_mut(end - covered..).ok_or(Forged)? } else { sealed };
        self.open.open_in_place(nonce(counter), Aad::from(clear), sealed).map_err(|_| Forged)?;
        if !self.came.admit(counter) {
            return Err(Forged);
        }
        self.highest = self.highest.max(counter);
        Ok(&datagram[PACKET_BYTES..end])
    }
}

fn nonce(counter: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&counter.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

/// The number with these lower bits that is nearest to another one.
pub(super) fn near(low: u32, other: u64) -> u64 {
    let ahead = low.wrapping_sub(other as u32) as i32;
    match other.checked_add_signed(ahead.into()) {
        Some(number) => number,
        // There is none below.
        None => u64::from(low),
    }
}

#[cfg(test)]
mod tests {
    use wire::acc::{Content, Datagram, Packet};

    use super::*;

    const HERE: Pair = Pair {
        local: IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
        remote: IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
    };
    const THERE: Pair = Pair { local: HERE.remote, remote: HERE.local };

    fn sessions() -> (Session, Session) {
        let key = SharedKey::new(&[1; 32]);
        let asked = Hello { session: 5, answers: None, nonce: [2; 16] };
        let answered = Hello { session: 5, answers: Some(6), nonce: [3; 16] };
        (
            key.session(&HERE, 1, &asked, &answered, true, 5),
            key.session(&THERE, 2, &asked, &answered, false, 6),
        )
    }

    fn packet<'a>(body: &'a [u8]) -> Packet<'a> {
        Packet { report: None, content: Content::Plain, body }
    }

    #[test]
    fn each_packet_is_let_through_once_and_no_other_is() {
        for clear in [false, true] {
            let (mut one, mut other) = sessions();
            assert_eq!((one.theirs, other.theirs), (6, 5));
            let sealed = |by: &mut Session| {
                let mut bytes = b"..".to_vec();
                let envelope = packet(b"body").emit(by.theirs, by.counter() as u32, clear, &mut bytes);
                by.seal(&envelope, &mut bytes, 2);
                bytes.split_off(2)
            };
            let opened = |by: &mut Session, datagram: &[u8]| match Datagram::parse(datagram) {
                Ok(Datagram::Packet(envelope)) => {
                    by.open(&envelope, &mut datagram.to_vec()).map(<[u8]>::to_vec)
                }
                _ => Err(Forged),
            };
            let body = Ok(b"body".to_vec());
            let (first, second) = (sealed(&mut one), sealed(&mut one));
            assert_eq!(first.windows(4).any(|part| part == b"body"), clear);
            assert_eq!(opened(&mut other, &second), body);
            assert_eq!(opened(&mut other, &first), body);
            assert_eq!(opened(&mut other, &first), Err(Forged), "again");
            let third = sealed(&mut one);
            for at in 0..third.len() {
                let mut changed = third.clone();
                changed[at] ^= 1;
                let is_body = clear && (PACKET_BYTES..PACKET_BYTES + 4).contains(&at);
                assert!(is_body || opened(&mut other, &changed).is_err(), "{at}");
            }
            assert_eq!(opened(&mut one, &third), Err(Forged), "its own");
        }
    }

    #[test]
    fn codes_hold_between_two_hosts_and_in_one_direction() {
        let key = SharedKey::new(&[1; 32]);
        let code = key.code(&HERE, b"hello", None);
        assert_eq!(key.verify(&THERE, b"hello", None, &code), Ok(()));
        assert_eq!(key.verify(&HERE, b"hello", None, &code), Err(Forged));
        assert_eq!(key.verify(&THERE, b"hallo", None, &code), Err(Forged));
        assert_eq!(key.verify(&THERE, b"hello", Some(b"x"), &code), Err(Forged));
        assert_eq!(SharedKey::new(&[2; 32]).verify(&THERE, b"hello", None, &code), Err(Forged));
    }

    #[test]
    fn numbers_are_found_again_by_their_lower_bits() {
        for (number, other) in
            [(5, 0), (0, 5), ((1 << 32) + 3, (1 << 32) - 9), ((7 << 32) - 2, (7 << 32) + 99)]
        {
            assert_eq!(near(number as u32, other), number);
        }
        assert_eq!(near(u32::MAX, 0), u64::from(u32::MAX));
    }
}
