//! How much may be on its way (ATP, section II-B), and how many packets one parity is for.

use std::time::Duration;

use crate::Time;

/// What a connection begins with, in packets (RFC 6928): as TCP does beside it.
const INITIAL_PACKETS: f64 = 10.0;
/// It never falls below this.
const LEAST_PACKETS: f64 = 2.0;
/// What is left after a loss that parity has repaired, and after one that had to be asked for or that a timeout has shown. The paper gives
/// no numbers. With these, 20 MB take about as long as CUBIC's 20 MB beside them (`make bench-short-flows`, fairness): over the short round
/// trips of a data centre CUBIC grows more slowly than by one packet in each, and with a half after any loss ATP would take four fifths of
/// CUBIC's time, as Linux's Reno does.
const AFTER_REPAIR: f64 = 0.4;
const AFTER_LOSS: f64 = 0.3;
/// Packets of a group while the window is the initial one: 8.5 kB have two parities (section III-A).
const INITIAL_GROUP: f64 = 3.0;
/// Packets of a group at most.
const MOST_GROUP: f64 = 64.0;

/// What is a sign of congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// Parity has repaired a loss, or a queue has marked a packet (RFC 3168).
    Light,
    /// The receiver had to ask for a packet, or the sender has waited in vain.
    Heavy,
}

impl Congestion {
    fn factor(self) -> f64 {
        match self {
            Congestion::Light => AFTER_REPAIR,
            Congestion::Heavy => AFTER_LOSS,
        }
    }
}

/// A window in bytes: additive increase, multiplicative decrease.
#[derive(Clone, Debug)]
pub struct Window {
    packet_bytes: f64,
    bytes: f64,
    /// Packets of a group.
    group: f64,
    /// Nothing has been a sign of congestion yet: it grows with everything that is acknowledged.
    starting: bool,
    /// When it last kept something from being sent.
    full: Option<Time>,
    round: Option<Round>,
    /// The last decrease: of what was sent before it, only a heavier one counts.
    decreased: Option<(Time, f64)>,
}

/// A round trip in which there has been no congestion.
#[derive(Clone, Copy, Debug)]
struct Round {
    began: Time,
    acknowledged: bool,
}

impl Window {
    /// That of a connection with packets of so many bytes.
    pub fn new(packet_bytes: u16) -> Self {
        let packet_bytes = f64::from(packet_bytes);
        let bytes = INITIAL_PACKETS * packet_bytes;
        Window {
            packet_bytes,
            bytes,
            group: INITIAL_GROUP,
            starting: true,
            full: None,
            round: None,
            decreased: None,
        }
    }

    /// Bytes that may be on their way.
    pub fn bytes(&self) -> u64 {
        self.bytes.round() as u64
    }

    /// Whether it still grows with everything that is acknowledged.
    pub fn is_starting(&self) -> bool {
        self.starting
    }

    /// It keeps something from being sent.
    pub fn on_full(&mut self, now: Time) {
        self.full = Some(now);
    }

    /// Whether it has kept something from being sent since then.
    pub fn was_full_since(&self, time: Time) -> bool {
        self.full.is_some_and(|full| full >= time)
    }

    /// Packets that one parity is for. At the beginning it is few. It grows with the window, since nothing is lost, and shrinks with it
    /// (section II-A), but never to fewer than at the beginning. It is no more than the window, unless that is shorter than such a group:
    /// then a parity for each packet or two would only add to what there is no room for.
    pub fn group(&self) -> u32 {
        let window = self.bytes / self.packet_bytes;
        self.group.min(window.max(INITIAL_GROUP)).min(MOST_GROUP) as u32
    }

    /// Bytes have been acknowledged that were sent then. `limited`: the window was what kept more from being sent.
    pub fn on_acknowledged(&mut self, now: Time, sent: Time, bytes: u64, rtt: Duration, limited: bool) {
        if !limited {
            // A window that is not used says nothing of the path (RFC 7661).
            self.round = None;
            return;
        }
        if self.starting {
            let before = self.bytes;
            self.bytes += bytes as f64;
            // Twice the window is four times the group: what goes on for long needs least parity.
            self.group = (self.group * (self.bytes / before).powi(2)).min(MOST_GROUP);
            return;
        }
        if self.decreased.is_some_and(|(at, _)| sent <= at) {
            // The round trip in which there was congestion is not over.
            return;
        }
        let round = self.round.get_or_insert(Round { began: now, acknowledged: false });
        if round.acknowledged && now.since(round.began) >= rtt {
            self.bytes += self.packet_bytes;
            self.group = (self.group + 1.0).min(MOST_GROUP);
            *round = Round { began: now, acknowledged: false };
        }
        round.acknowledged |= bytes > 0;
    }

    /// A packet that was sent then has met congestion.
    pub fn on_congestion(&mut self, now: Time, sent: Time, congestion: Congestion) {
        let mut factor = congestion.factor();
        if let Some((at, applied)) = self.decreased.filter(|(at, _)| sent <= *at) {
            if factor >= applied {
                return;
            }
            self.decreased = Some((at, factor));
            factor /= applied;
        } else {
            self.decreased = Some((now, factor));
        }
        self.bytes = (self.bytes * factor).max(LEAST_PACKETS * self.packet_bytes);
        self.group = (self.group * factor).max(INITIAL_GROUP);
        self.starting = false;
        self.round = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: u16 = 1200;
    const RTT: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn packets(window: &Window) -> f64 {
        window.bytes() as f64 / f64::from(PACKET)
    }

    #[test]
    fn it_begins_with_ten_packets_and_grows_with_what_is_acknowledged() {
        let mut window = Window::new(PACKET);
        assert_eq!(packets(&window), 10.0);
        window.on_acknowledged(at(1), at(0), 12_000, RTT, true);
        assert_eq!(packets(&window), 20.0);
        window.on_acknowledged(at(2), at(1), 12_000, RTT, false);
        assert_eq!(packets(&window), 20.0, "what nobody uses does not grow");
    }

    #[test]
    fn after_congestion_it_grows_by_one_packet_in_each_round_trip_without_any() {
        let mut window = Window::new(PACKET);
        window.on_congestion(at(1), at(0), Congestion::Heavy);
        let begun = packets(&window);
        for ms in 2..=3 {
            window.on_acknowledged(at(ms), at(1), 1200, RTT, true);
            assert_eq!(packets(&window), begun, "it was sent before the window has become shorter");
        }
        for ms in 3..=13 {
            for _ in 0..5 {
                window.on_acknowledged(at(ms), at(ms - 1), 1200, RTT, true);
            }
        }
        assert_eq!(packets(&window) - begun, 10.0);
        window.on_congestion(at(14), at(13), Congestion::Light);
        let begun = packets(&window);
        window.on_acknowledged(at(15), at(15), 1200, RTT, true);
        assert_eq!(packets(&window), begun, "a round that has only begun");
    }

    #[test]
    fn a_loss_that_parity_repairs_costs_less() {
        let (mut light, mut heavy) = (Window::new(PACKET), Window::new(PACKET));
        light.on_congestion(at(1), at(0), Congestion::Light);
        heavy.on_congestion(at(1), at(0), Congestion::Heavy);
        assert!(light.bytes() > heavy.bytes());
        assert!(!light.is_starting() && !heavy.is_starting());
    }

    #[test]
    fn what_was_sent_before_a_decrease_counts_again_only_if_it_is_heavier() {
        let mut window = Window::new(PACKET);
        window.on_acknowledged(at(1), at(0), 36_000, RTT, true);
        assert_eq!(packets(&window), 40.0);
        window.on_congestion(at(2), at(1), Congestion::Light);
        window.on_congestion(at(2), at(1), Congestion::Light);
        assert_eq!(packets(&window), 40.0 * AFTER_REPAIR);
        window.on_congestion(at(2), at(1), Congestion::Heavy);
        window.on_congestion(at(2), at(2), Congestion::Heavy);
        assert_eq!(packets(&window), 40.0 * AFTER_LOSS);
        window.on_congestion(at(4), at(3), Congestion::Light);
        assert_eq!(window.bytes(), (48_000.0 * AFTER_LOSS * AFTER_REPAIR).round() as u64);
        for ms in 5..50 {
            window.on_congestion(at(ms), at(ms), Congestion::Heavy);
        }
        assert_eq!(packets(&window), LEAST_PACKETS);
    }

    #[test]
    fn parity_becomes_rarer_as_the_window_grows_and_denser_as_it_shrinks() {
        let mut window = Window::new(PACKET);
        assert_eq!(window.group(), 3);
        let mut last = window.group();
        for _ in 0..20 {
            window.on_acknowledged(at(1), at(0), 6_000, RTT, true);
            assert!(window.group() >= last);
            last = window.group();
        }
        assert_eq!(last, 64);
        for ms in 5..50 {
            window.on_congestion(at(ms), at(ms), Congestion::Heavy);
            assert!(window.group() <= last);
            last = window.group();
        }
        assert_eq!((last, packets(&window)), (3, LEAST_PACKETS), "as at the beginning");
    }
}
