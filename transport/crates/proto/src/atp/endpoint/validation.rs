//! Tokens, by which an address shows that it has heard this endpoint (RFC 9000, section 8.1), and numbers that nobody guesses.

use std::net::IpAddr;
use std::time::Duration;

use ring::hmac::{HMAC_SHA256, Key, sign};
use subtle::ConstantTimeEq;

use crate::Time;

const TIME_BYTES: usize = 8;
const MAC_BYTES: usize = 16;
/// After this a token is of no use any more.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug)]
pub(super) struct Validation {
    key: Key,
    drawn: u64,
}

impl Validation {
    pub(super) fn new(key: &[u8; 32]) -> Self {
        Validation { key: Key::new(HMAC_SHA256, key), drawn: 0 }
    }

    /// A number that nobody else can guess.
    pub(super) fn draw(&mut self) -> u32 {
        self.drawn += 1;
        let bytes = self.mac(b"number", &[&self.drawn.to_be_bytes()]);
        bytes.iter().take(4).fold(0, |number, byte| number << 8 | u32::from(*byte))
    }

    /// What `address` is to show.
    pub(super) fn token(&self, now: Time, address: IpAddr) -> Vec<u8> {
        let time = now.as_nanos().to_be_bytes();
        [&time[..], &self.mac_of(time, address)].concat()
    }

    /// Whether this is a token that this endpoint has given to this address, not too long ago.
    pub(super) fn is_good(&self, now: Time, address: IpAddr, token: &[u8]) -> bool {
        let Some((time, mac)) = token.split_first_chunk::<TIME_BYTES>() else { return false };
        let given = Time::from_nanos(u64::from_be_bytes(*time));
        now.since(given) < LIFETIME && bool::from(self.mac_of(*time, address).ct_eq(mac))
    }

    fn mac_of(&self, time: [u8; TIME_BYTES], address: IpAddr) -> [u8; MAC_BYTES] {
        let address = match address.to_canonical() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        };
        self.mac(b"token", &[&time, &address])
    }

    fn mac(&self, label: &[u8], parts: &[&[u8]]) -> [u8; MAC_BYTES] {
        let tag = sign(&self.key, &[label, &parts.concat()].concat());
        *tag.as_ref().first_chunk().expect("SHA-256 has 32 bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_nanos(5_000_000_000);

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_token_is_good_for_its_address_and_a_day() {
        let validation = Validation::new(&[7; 32]);
        let token = validation.token(NOW, address("10.0.0.1"));
        assert!(validation.is_good(NOW, address("10.0.0.1"), &token));
        assert!(validation.is_good(NOW, address("::ffff:10.0.0.1"), &token), "the same host");
        assert!(!validation.is_good(NOW, address("10.0.0.2"), &token));
        assert!(!validation.is_good(NOW + LIFETIME, address("10.0.0.1"), &token));
        assert!(!Validation::new(&[8; 32]).is_good(NOW, address("10.0.0.1"), &token), "another endpoint's");
    }

    #[test]
    fn a_token_that_was_changed_is_none() {
        let validation = Validation::new(&[7; 32]);
        let token = validation.token(NOW, address("2001:db8::1"));
        for at in 0..token.len() {
            let mut changed = token.clone();
            changed[at] ^= 1;
            assert!(!validation.is_good(NOW, address("2001:db8::1"), &changed), "{at}");
            assert!(!validation.is_good(NOW, address("2001:db8::1"), &token[..at]), "{at}");
        }
        assert!(!validation.is_good(NOW, address("2001:db8::1"), &[&token[..], &[0]].concat()));
    }

    #[test]
    fn numbers_do_not_repeat_soon() {
        let mut validation = Validation::new(&[7; 32]);
        let drawn: std::collections::HashSet<_> = (0..1000).map(|_| validation.draw()).collect();
        assert_eq!(drawn.len(), 1000);
    }
}
