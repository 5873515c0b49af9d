//! A host that has the key all hosts of TCP-ACC's layer share, and says under it whatever it likes.

use std::net::IpAddr;

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk};
use ring::hmac;
use weir_proto::acc::KEY_BYTES;
use weir_proto::acc::packet::Pair;
use wire::acc::{CODE_BYTES, Datagram, Hello, PACKET_BYTES, Packet};

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn expand<const N: usize>(secret: &Prk, info: &[&[u8]]) -> [u8; N] {
    let mut bytes = [0; N];
    secret.expand(info, Length(N)).and_then(|okm| okm.fill(&mut bytes)).expect("it is short enough");
    bytes
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// Such a host.
pub struct Hostile {
    pair: Pair,
    secret: Prk,
    asked: Hello,
    keys: Option<(LessSafeKey, u32)>,
    /// The number of its next packet.
    pub counter: u64,
}

impl Hostile {
    /// One that shares `pair` with its victim, as it sees it.
    pub fn new(key: &[u8; KEY_BYTES], pair: Pair) -> Self {
        let secret = Prk::new_less_safe(HKDF_SHA256, key);
        Hostile {
            pair,
            secret,
            asked: Hello { session: 0, answers: None, nonce: [0; 16] },
            keys: None,
            counter: 0,
        }
    }

    /// A probe like none before.
    pub fn probe(&mut self) -> Vec<u8> {
        self.asked.session += 1;
        self.asked.nonce[0] = self.asked.nonce[0].wrapping_add(1);
        let key: [u8; 32] = expand(&self.secret, &[b"weir acc hello"]);
        let mut bytes = Vec::new();
        self.asked.emit(&mut bytes);
        let mut code = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &key));
        code.update(&bytes);
        code.update(&octets(self.pair.local));
        code.update(&octets(self.pair.remote));
        bytes.extend_from_slice(&code.sign().as_ref()[..CODE_BYTES]);
        bytes
    }

    /// Takes what its victim has sent: if that is an answer to the last probe, there are keys.
    pub fn take(&mut self, datagram: &[u8]) {
        let Ok(Datagram::Hello(Hello { session, answers: Some(theirs), nonce }, ..)) =
            Datagram::parse(datagram)
        else {
            return;
        };
        if session == self.asked.session {
            let (asker, answerer) = (octets(self.pair.local), octets(self.pair.remote));
            let info: [&[u8]; 6] = [b"weir acc packet", &[1], &self.asked.nonce, &nonce, &asker, &answerer];
            let key: [u8; 16] = expand(&self.secret, &info);
            let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key).expect("it has 16 bytes"));
            (self.keys, self.counter) = (Some((key, theirs)), 0);
        }
    }

    /// Seals a packet as its next one.
    pub fn seal(&mut self, packet: &Packet<'_>) -> Option<Vec<u8>> {
        let (key, theirs) = self.keys.as_ref()?;
        let mut bytes = Vec::new();
        packet.emit(*theirs, self.counter as u32, false, &mut bytes);
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&self.counter.to_be_bytes());
        let (clear, body) = bytes.split_at_mut(PACKET_BYTES);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = key.seal_in_place_separate_tag(nonce, Aad::from(clear), body).expect("it is short enough");
        bytes.extend_from_slice(tag.as_ref());
        self.counter += 1;
        Some(bytes)
    }
}
