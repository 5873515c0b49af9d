//! Proof that a sender is where its datagrams say, before anything is remembered of it; and the answer to who is unknown.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ring::hmac;
use subtle::ConstantTimeEq;
use wire::packet::{Cookie, Flag, HEADER_BYTES, Header, Kind, SIGNAL_BYTES, Signal};

use crate::Time;

/// How long a cookie is good for, at least; at most twice that.
const COOKIE_LIFE: Duration = Duration::from_secs(30);
pub(super) const COOKIE_BYTES: usize = size_of::<Cookie>();

/// Appends the answer to a signal, or a symbol, of a connection that there is not.
pub fn reset(connection: u32, buffer: &mut Vec<u8>) {
    Header { kind: Kind::Signal, connection, number: 0 }.emit(buffer);
    Signal { flag: Flag::Reset, offset: 0, acknowledged: 0 }.emit(buffer);
}

/// Lets in who has shown where he is (as DTLS and QUIC do: RFC 6347, section 4.2.1; RFC 9000, section 8.1.2).
pub struct AddressValidator(hmac::Key);

impl AddressValidator {
    /// One with a secret of its own.
    pub fn new(secret: &[u8; 32]) -> Self {
        AddressValidator(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    fn cookie(&self, epoch: u64, from: SocketAddr, connection: u32) -> Cookie {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(&epoch.to_be_bytes());
        context.update(&connection.to_be_bytes());
        match from.ip() {
            IpAddr::V4(ip) => context.update(&ip.octets()),
            IpAddr::V6(ip) => context.update(&ip.octets()),
        }
        context.update(&from.port().to_be_bytes());
        *context.sign().as_ref().first_chunk().expect("SHA-256 has 32 bytes")
    }

    /// A signal of no known connection. True: it opens one. Else what to answer is appended, if anything is.
    pub fn admits(
        &self,
        now: Time,
        from: SocketAddr,
        connection: u32,
        signal: &Signal,
        payload: &[u8],
        answer: &mut Vec<u8>,
    ) -> bool {
        let epoch = now.as_nanos() / COOKIE_LIFE.as_nanos() as u64;
        let Some(shown) = payload.first_chunk::<COOKIE_BYTES>() else {
            if !matches!(signal.flag, Flag::Open | Flag::Opens | Flag::Reset) {
                reset(connection, answer);
            }
            return false;
        };
        match signal.flag {
            Flag::Opens => {
                let good = |epoch| bool::from(self.cookie(epoch, from, connection).ct_eq(shown));
                if good(epoch) || epoch.checked_sub(1).is_some_and(good) {
                    return true;
                }
            }
            Flag::Open => {}
            Flag::Reset => return false,
            Flag::None | Flag::End | Flag::Retry => {
                reset(connection, answer);
                return false;
            }
        }
        Header { kind: Kind::Signal, connection, number: 0 }.emit(answer);
        Signal { flag: Flag::Retry, offset: 0, acknowledged: 0 }.emit(answer);
        answer.extend_from_slice(&self.cookie(epoch, from, connection));
        debug_assert_eq!(answer.len(), HEADER_BYTES + SIGNAL_BYTES + COOKIE_BYTES);
        false
    }
}
