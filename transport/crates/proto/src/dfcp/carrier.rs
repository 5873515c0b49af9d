//! The control channel of a connection, carried by its signals.

use std::time::Duration;

use wire::packet::{Header, Kind};

use super::Signalling;
use crate::Time;
use crate::channel::{Broken, Channel};
use crate::protect::{DFCP_LABEL, DFCP_SIGNAL_LABEL, Protection, Side};

/// What a peer may leave unacknowledged before the channel has to wait.
const MOST_UNACKNOWLEDGED_BYTES: usize = 256 << 10;

/// What both ends of a connection have.
pub(super) struct Carrier {
    pub(super) signalling: Signalling,
    pub(super) channel: Channel,
    side: Side,
    silence: Duration,
    /// What protects symbols and reports, once there are keys and until it is taken.
    protection: Option<Protection>,
    has_keys: bool,
}

impl Carrier {
    pub(super) fn new(signalling: Signalling, channel: Channel, side: Side, silence: Duration) -> Self {
        Carrier { signalling, channel, side, silence, protection: None, has_keys: false }
    }

    /// Takes what its signals have brought.
    pub(super) fn read(&mut self) -> Result<(), Broken> {
        let arrived = self.signalling.take();
        if !arrived.is_empty() {
            self.channel.receive(&arrived)?;
        }
        if !self.has_keys && self.channel.is_open() {
            self.has_keys = true;
            self.protection = Some(self.channel.protection(DFCP_LABEL, self.side)?);
            let of_signals = self.channel.protection(DFCP_SIGNAL_LABEL, self.side)?;
            self.signalling.protect(of_signals, self.side);
        }
        if self.signalling.has_ended() { Err(self.channel.ended(None)) } else { Ok(()) }
    }

    /// Has signals carry what there is to say.
    pub(super) fn write(&mut self) {
        while self.signalling.unacknowledged_bytes() < MOST_UNACKNOWLEDGED_BYTES {
            let bytes = self.channel.outgoing();
            if bytes.is_empty() {
                break;
            }
            self.signalling.write(bytes);
            let count = bytes.len();
            self.channel.written(count);
        }
    }

    /// Says what there is to say, and that nothing follows.
    pub(super) fn close(&mut self) {
        self.channel.close();
        self.write();
        self.signalling.end();
    }

    /// Bytes that it holds, both ways.
    pub(super) fn held_bytes(&self) -> usize {
        self.channel.held_bytes() + self.signalling.held_bytes()
    }

    /// Keys of symbols and reports, once: both ends have been heard, and know who the other is.
    pub(super) fn opened(&mut self) -> Option<Protection> {
        self.protection.take_if(|_| self.signalling.is_open())
    }

    /// Whether the peer knows nothing of this connection. `heard`: when something authentic came last beside signals.
    pub(super) fn was_reset(&mut self, now: Time, heard: Option<Time>) -> bool {
        self.signalling.was_reset(now, heard)
    }

    /// When the peer counts as gone, if it does not answer.
    pub(super) fn silent_at(&self) -> Option<Time> {
        self.signalling.silent_since().map(|since| since + self.silence)
    }
}

/// The header of a datagram that is none of the data channel: a signal or a probe.
pub(super) fn header_beside_data(datagram: &[u8]) -> Option<Header> {
    Header::parse(datagram).ok().filter(|header| matches!(header.kind, Kind::Signal | Kind::Probe))
}
