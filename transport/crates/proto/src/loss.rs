//! How many symbols to send so that enough arrive (the paper's section 4.5: an expected number, then a stop).

/// Symbols over which the loss rate is averaged.
const AVERAGED: f64 = 2000.0;
/// More is not reckoned with: a path that loses this much is as good as none.
const MOST_LOSS: f64 = 0.9;
/// How sure to be, in standard deviations: of not sending too much while there is something else to send, of sending
/// enough when there is not.
const MARGIN: f64 = 1.0;
/// Of a symbol: less is no reason to send another.
const ROUNDING: f64 = 1e-3;

/// The share of symbols that is lost, from what the receiver counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct LossMeter {
    loss: f64,
    /// The highest number that came, and how many had come then.
    latest: Option<(u64, u64)>,
    seen: f64,
}

impl LossMeter {
    /// The receiver has got `received` symbols of those up to number `highest`.
    pub(crate) fn on_report(&mut self, highest: u64, received: u64) {
        let (numbers, before) = self.latest.map_or((0, 0), |(highest, received)| (highest + 1, received));
        let Some(sent) = (highest + 1).checked_sub(numbers).filter(|sent| *sent > 0) else { return };
        self.latest = Some((highest, received));
        let sent = sent as f64;
        let lost = (1.0 - received.saturating_sub(before) as f64 / sent).max(0.0);
        self.seen = (self.seen + sent).min(AVERAGED);
        self.loss += (sent / self.seen).min(1.0) * (lost - self.loss);
    }

    /// What was sent before number `next`, and has not come, tells nothing of the loss: the path had come to carry less.
    /// `received`: what has come by now.
    pub(crate) fn forgive(&mut self, next: u64, received: u64) {
        self.latest = next.checked_sub(1).map(|last| (last, received)).or(self.latest);
    }

    /// The share of symbols that is lost if each goes in so many datagrams.
    pub(crate) fn of_pieces(&self, pieces: u8) -> LossMeter {
        LossMeter { loss: 1.0 - (1.0 - self.loss()).powi(pieces.into()), ..self.clone() }
    }

    /// From 0 to [`MOST_LOSS`].
    pub(crate) fn loss(&self) -> f64 {
        self.loss.min(MOST_LOSS)
    }

    /// How many symbols to send of a block that needs `needs` beyond those that came, of which `in_flight` are on their
    /// way. `last`: there is nothing else to send, so that coming short costs a round trip; else it costs nothing, and what
    /// is sent in vain costs the rate.
    pub(crate) fn to_send(&self, needs: u64, in_flight: u64, last: bool) -> u64 {
        let loss = self.loss();
        let margin = if last { -MARGIN } else { MARGIN };
        let arrive = |sent: u64| {
            let sent = sent as f64;
            sent * (1.0 - loss) + margin * (sent * loss * (1.0 - loss)).sqrt()
        };
        let needs_f = needs as f64 - ROUNDING;
        if needs == 0 || arrive(in_flight) >= needs_f {
            return 0;
        }
        // The root of s (1 - p) + m sqrt(s p (1 - p)) = needs, for the square root of s.
        let (keep, spread) = (1.0 - loss, margin * (loss * (1.0 - loss)).sqrt());
        let root = ((spread * spread + 4.0 * keep * needs_f).sqrt() - spread) / (2.0 * keep);
        let sent = (root * root).ceil() as u64;
        sent.saturating_sub(in_flight).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losing(loss: f64) -> LossMeter {
        LossMeter { loss, ..LossMeter::default() }
    }

    #[test]
    fn without_loss_what_is_needed_is_sent() {
        let meter = losing(0.0);
        for needs in 0..1000 {
            for in_flight in [0, 1, 10, 500] {
                for last in [false, true] {
                    assert_eq!(meter.to_send(needs, in_flight, last), needs.saturating_sub(in_flight));
                }
            }
        }
    }

    #[test]
    fn what_is_sent_is_the_least_that_is_expected_to_be_enough() {
        for loss in [0.001, 0.01, 0.1, 0.5, 0.9] {
            let meter = losing(loss);
            for needs in [1, 2, 10, 256, 4000] {
                for last in [false, true] {
                    let sent = meter.to_send(needs, 0, last);
                    let margin = if last { -MARGIN } else { MARGIN };
                    let arrive = |n: f64| {
                        n * (1.0 - loss) + margin * (n * loss * (1.0 - loss)).sqrt() + 2.0 * ROUNDING
                    };
                    assert!(arrive(sent as f64) >= needs as f64, "{loss} {needs} {last}: {sent}");
                    let less = arrive(sent as f64 - 1.0) - 4.0 * ROUNDING;
                    assert!(sent == 1 || less < needs as f64, "{loss} {needs} {last}: {sent}");
                    assert_eq!(meter.to_send(needs, sent, last), 0);
                }
            }
        }
    }

    #[test]
    fn the_loss_rate_follows_what_is_counted() {
        let mut meter = LossMeter::default();
        let (mut highest, mut received) = (0, 0);
        for _ in 0..100 {
            (highest, received) = (highest + 100, received + 80);
            meter.on_report(highest, received);
        }
        assert!((meter.loss() - 0.2).abs() < 0.01, "{}", meter.loss());
        meter.on_report(highest, received);
        meter.on_report(highest - 50, received - 50);
        assert!((meter.loss() - 0.2).abs() < 0.01, "what is old changes nothing");
        for _ in 0..100 {
            (highest, received) = (highest + 100, received + 100);
            meter.on_report(highest, received);
        }
        assert!(meter.loss() < 0.01);
        let before = meter.clone();
        meter.forgive(highest + 501, received);
        meter.on_report(highest + 500, received);
        meter.on_report(highest + 600, received + 100);
        assert!(meter.loss() <= before.loss(), "what the path had become too narrow for is no loss");
        assert!((losing(0.1).of_pieces(2).loss() - 0.19).abs() < 1e-9);
        (highest, received) = (highest + 600, received + 100);
        // Late ones count for later: never less than nothing, nor more than all.
        meter.on_report(highest + 1, received + 1000);
        assert!((0.0..=0.01).contains(&meter.loss()));
        meter.on_report(u64::MAX - 1, 0);
        assert!(meter.loss() <= MOST_LOSS);
    }
}
