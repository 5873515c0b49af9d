//! How an endpoint behaves.

use std::ffi::c_int;
use std::ops::RangeInclusive;
use std::time::Duration;

use proto::atp::{ConnectionConfig, FIRST_STREAM_WINDOW_BYTES, FIRST_STREAMS, FIRST_WINDOW_BYTES};
use proto::limits::Limits;
use proto::path_mtu::MIN_BYTES;
use ring::rand::{SecureRandom, SystemRandom};

use crate::boundary::{EINVAL, Fault, attempt, place};

/// The longest UDP payload of IPv4.
const LONGEST_BYTES: u64 = 65_507;
/// No window or memory is larger: sums of them stay what the wire can carry.
const MOST: u64 = 1 << 48;
/// With less, no connection has room.
const LEAST_MEMORY_BYTES: u64 = 1 << 20;

/// How an endpoint behaves (`struct weir_atp_config`).
#[repr(C)]
pub struct AtpConfig {
    pub(super) key: [u8; 32],
    datagram_bytes: u16,
    parity: bool,
    ecn: bool,
    early: bool,
    window_bytes: u64,
    max_window_bytes: u64,
    max_stream_window_bytes: u64,
    send_bytes: u64,
    stream_send_bytes: u64,
    max_streams: u64,
    idle_ns: u64,
    opening_ns: u64,
    connections: u64,
    connections_of_an_address: u64,
    memory_bytes: u64,
}

impl AtpConfig {
    fn default_with(key: [u8; 32]) -> Self {
        let connection = ConnectionConfig::default();
        let limits = Limits::default();
        let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        AtpConfig {
            key,
            datagram_bytes: connection.datagram_bytes,
            parity: connection.parity,
            ecn: connection.ecn,
            early: connection.early,
            window_bytes: connection.window_bytes,
            max_window_bytes: connection.max_window_bytes,
            max_stream_window_bytes: connection.max_stream_window_bytes,
            send_bytes: connection.send_bytes as u64,
            stream_send_bytes: connection.stream_send_bytes as u64,
            max_streams: connection.max_streams,
            idle_ns: ns(connection.idle),
            opening_ns: ns(connection.opening),
            connections: limits.connections as u64,
            connections_of_an_address: limits.connections_of_an_address as u64,
            memory_bytes: limits.memory_bytes as u64,
        }
    }

    /// The same for the state machine, which takes the nearest of what it cannot do: here that is refused.
    pub(super) fn checked(&self) -> Result<(ConnectionConfig, Limits), Fault> {
        if self.key == [0; 32] {
            return Err(Fault::invalid("config.key is all zeros: weir_atp_defaults fills in a random one"));
        }
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let datagram_bytes = u64::from(self.datagram_bytes);
        within("datagram_bytes", datagram_bytes, u64::from(MIN_BYTES)..=LONGEST_BYTES)?;
        let connection = ConnectionConfig {
            datagram_bytes: self.datagram_bytes,
            window_bytes: within("window_bytes", self.window_bytes, FIRST_WINDOW_BYTES..=MOST)?,
            max_window_bytes: within("max_window_bytes", self.max_window_bytes, self.window_bytes..=MOST)?,
            max_stream_window_bytes: within(
                "max_stream_window_bytes",
                self.max_stream_window_bytes,
                FIRST_STREAM_WINDOW_BYTES..=MOST,
            )?,
            send_bytes: size(within("send_bytes", self.send_bytes, 1..=MOST)?),
            stream_send_bytes: size(within("stream_send_bytes", self.stream_send_bytes, 1..=MOST)?),
            max_streams: within("max_streams", self.max_streams, FIRST_STREAMS..=MOST)?,
            idle: Duration::from_nanos(within("idle_ns", self.idle_ns, 1..=u64::MAX)?),
            opening: Duration::from_nanos(within("opening_ns", self.opening_ns, 1..=u64::MAX)?),
            early: self.early,
            parity: self.parity,
            ecn: self.ecn,
            ..ConnectionConfig::default()
        };
        let limits = Limits {
            connections: size(within("connections", self.connections, 1..=MOST)?),
            connections_of_an_address: size(within(
                "connections_of_an_address",
                self.connections_of_an_address,
                1..=MOST,
            )?),
            memory_bytes: size(within("memory_bytes", self.memory_bytes, LEAST_MEMORY_BYTES..=MOST)?),
            ..Limits::default()
        };
        Ok((connection, limits))
    }
}

fn within(name: &str, value: u64, range: RangeInclusive<u64>) -> Result<u64, Fault> {
    if range.contains(&value) {
        return Ok(value);
    }
    let (least, most) = range.into_inner();
    Err(Fault::invalid(format!("config.{name} is {value}: it is to be from {least} to {most}")))
}

/// Fills in what `fountain` does, and a key that nobody knows.
///
/// # Safety
/// `config` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_atp_defaults(config: *mut AtpConfig) -> c_int {
    let done = attempt(|| {
        let config = place("config", config)?;
        let mut key = [0; 32];
        SystemRandom::new()
            .fill(&mut key)
            .map_err(|_| Fault { status: EINVAL, what: "the system gives no randomness".to_owned() })?;
        // SAFETY: the caller's promise.
        unsafe { config.write(AtpConfig::default_with(key)) };
        Ok(0)
    });
    done.unwrap_or_else(|status| status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_that_cannot_be_is_refused_by_the_name_of_what_is_wrong() {
        let good = || AtpConfig::default_with([1; 32]);
        assert!(good().checked().is_ok());
        type Spoil = fn(&mut AtpConfig);
        let spoilt: [(&str, Spoil); 13] = [
            ("key", |c| c.key = [0; 32]),
            ("datagram_bytes", |c| c.datagram_bytes = 511),
            ("datagram_bytes", |c| c.datagram_bytes = 65_508),
            ("window_bytes", |c| c.window_bytes = 5),
            ("max_window_bytes", |c| c.max_window_bytes = c.window_bytes - 1),
            ("max_stream_window_bytes", |c| c.max_stream_window_bytes = u64::MAX),
            ("send_bytes", |c| c.send_bytes = 0),
            ("stream_send_bytes", |c| c.stream_send_bytes = 0),
            ("max_streams", |c| c.max_streams = 1),
            ("idle_ns", |c| c.idle_ns = 0),
            ("opening_ns", |c| c.opening_ns = 0),
            ("connections_of_an_address", |c| c.connections_of_an_address = 0),
            ("memory_bytes", |c| c.memory_bytes = 1000),
        ];
        for (name, spoil) in spoilt {
            let mut config = good();
            spoil(&mut config);
            let fault = config.checked().err().unwrap();
            assert!(fault.what.starts_with(&format!("config.{name} is ")), "{fault:?}");
        }
    }
}
