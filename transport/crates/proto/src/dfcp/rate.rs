//! How fast to send: as somebody says who knows the path, else as TFRC finds.

use std::time::Duration;

use crate::{Time, tfrc};

/// No receiver can ask for less.
const LEAST_BPS: u64 = 10_000;

/// Who is to say how fast to send. All rates are in bit/s of whole Ethernet frames, as switches count them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateConfig {
    /// What is told counts for no less than this.
    pub floor_bps: f64,
    /// Nothing counts for more than this.
    pub ceiling_bps: f64,
    /// What was told counts for so long, unless it is confirmed; `None`: for ever.
    pub expiry: Option<Duration>,
    /// Whether TFRC's rate is to be used as long as nothing that was told counts.
    pub fallback: bool,
    /// At TFRC's rate a datagram is sent after this at the latest, however low that rate is. RFC 5348 has 64 s (t_mbi): a
    /// receiver that its system lets wait for a moment would hear so little afterwards that it takes its sender for lost.
    pub longest_gap: Duration,
}

/// Whose rate is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guide {
    /// Nobody's: nothing is sent.
    Nobody,
    /// What was told: by the controller, or by the user.
    Told,
    /// TFRC's.
    Tfrc,
}

/// The rate now.
#[derive(Clone, Debug)]
pub(super) struct Rate {
    config: RateConfig,
    told: Option<(f64, Time)>,
    /// What the receiver takes at most, in bit/s of frames.
    taken_bps: f64,
    pub(super) tfrc: tfrc::Sender,
    /// Of a frame, the part that its datagram takes.
    datagram_part: f64,
    datagram_bytes: f64,
}

impl Rate {
    /// Of datagrams of `datagram_bytes` in frames that have `frame_bytes` around each.
    pub(super) fn new(
        config: RateConfig,
        tfrc: tfrc::Sender,
        datagram_bytes: usize,
        frame_bytes: usize,
    ) -> Self {
        let datagram_part = datagram_bytes as f64 / (datagram_bytes + frame_bytes) as f64;
        let (told, taken_bps, datagram_bytes) = (None, f64::INFINITY, datagram_bytes as f64);
        Rate { config, told, taken_bps, tfrc, datagram_part, datagram_bytes }
    }

    /// Datagrams have this length from now on.
    pub(super) fn resize(&mut self, datagram_bytes: usize, frame_bytes: usize) {
        self.datagram_part = datagram_bytes as f64 / (datagram_bytes + frame_bytes) as f64;
        self.datagram_bytes = datagram_bytes as f64;
    }

    /// So much may be sent, from now on.
    pub(super) fn tell(&mut self, now: Time, bps: f64) {
        if bps.is_finite() && bps >= 0.0 {
            self.told = Some((bps, now));
        }
    }

    /// The receiver takes no more than this.
    pub(super) fn cap(&mut self, bps: u64) {
        // With nothing at all neither end would hear of the other.
        self.taken_bps = bps.max(LEAST_BPS) as f64;
    }

    /// What was told last still counts.
    pub(super) fn confirm(&mut self, now: Time) {
        if let Some((_, at)) = &mut self.told {
            *at = now;
        }
    }

    /// Until when what was told counts.
    pub(super) fn expires_at(&self) -> Option<Time> {
        self.told.and_then(|(_, at)| Some(at + self.config.expiry?))
    }

    pub(super) fn guide(&self, now: Time) -> Guide {
        match self.told {
            Some(_) if self.expires_at().is_none_or(|at| now < at) => Guide::Told,
            _ if self.config.fallback => Guide::Tfrc,
            _ => Guide::Nobody,
        }
    }

    /// In bytes/s of datagrams; 0 if nothing may be sent.
    pub(super) fn rate(&self, now: Time) -> f64 {
        let told_bps = self.told.map_or(0.0, |(bps, _)| bps);
        let part = self.datagram_part / 8.0;
        let ceiling = self.config.ceiling_bps.min(self.taken_bps) * part;
        match self.guide(now) {
            Guide::Nobody => 0.0,
            Guide::Told => (told_bps.max(self.config.floor_bps) * part).min(ceiling),
            Guide::Tfrc => {
                let least = self.datagram_bytes / self.config.longest_gap.as_secs_f64();
                self.tfrc.rate().max(least).min(ceiling)
            }
        }
    }
}
