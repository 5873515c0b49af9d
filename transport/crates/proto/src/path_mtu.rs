//! How long a datagram a path carries, found out by probing: datagram packetization layer path MTU discovery (RFC 8899).
//!
//! A probe is a datagram of a length that is padded, of no use to anybody, and answered by the peer. Probes go in rounds: one
//! of the length in question first, then a shorter one that tells a path that swallows long datagrams from one that carries
//! nothing at all. Only a round of which something was answered counts (section 4.3). Lengths are those of UDP payloads.

#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::Time;

/// What any path is taken to carry until more is known (BASE_PLPMTU, section 5.1.2).
pub const BASE_BYTES: u16 = 1200;
/// What is sent over a path that does not even carry that (MIN_PLPMTU, section 5.1.2).
pub const MIN_BYTES: u16 = 512;
/// Probes of a length that are lost before it counts as too long (MAX_PROBES, section 5.1.2): where few are lost for other
/// reasons.
const MAX_PROBES: u32 = 3;
/// A length is refuted in error with no more than this probability.
const MOST_ERROR: f64 = 1e-3;
/// No path needs more probes.
const MOST_PROBES: u32 = 64;
/// After this the path may have come to carry more (PMTU_RAISE_TIMER, section 5.1.1).
const RAISE: Duration = Duration::from_secs(600);
/// Beside two round trips, a probe's answer may take so long.
const PROBE_MARGIN: Duration = Duration::from_millis(25);
/// While the round trip is not known (PROBE_TIMER, section 5.1.1, which may not be less).
const PROBE_TIMER: Duration = Duration::from_secs(1);
/// While nothing passes, rounds come at least so often.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Where more than this share is lost, that is congestion rather than the length: a silence has to be so long to be a sign of that.
const MOST_LOSS: f64 = 0.5;
const LONG_SILENCE: Duration = Duration::from_millis(500);
/// Datagrams in a row that are lost before the path is in doubt, at least.
const MOST_LOST: u32 = 5;
/// The search ends when the length is known so exactly.
const STEP: u16 = 16;

/// What one end knows of its path to the other.
#[derive(Clone, Debug)]
pub struct PathMtu {
    /// Nothing longer is ever sent.
    max: u16,
    /// What the path carries, as far as is known (PLPMTU).
    size: u16,
    /// The longest datagram that came through since the path was in doubt; 0: none, nothing is known (Base, section 5.2).
    low: u16,
    /// All lengths from here on are too long.
    high: u16,
    /// Whether a probe has shown that of `high`; else it is hearsay, or nobody would send so much.
    refuted: bool,
    /// Rounds in which the length in question was not answered, and another one was.
    failures: u32,
    /// How often something has to be lost to be more than bad luck.
    most_lost: u32,
    /// Nothing is doubted before nothing has come for so long, beside what an answer may take.
    silence: Duration,
    rtt: Option<Duration>,
    round: Option<Round>,
    next_round: Option<Time>,
    /// If the next round is not answered at all, the one after it comes so much later.
    pause: Duration,
    /// Full-sized datagrams that were sent since one came, and when the first of them was.
    unanswered: Option<(Time, u32)>,
    /// Whether `size` still passes is in question; what is known of longer ones stays so.
    doubted: bool,
}

/// Probes that were sent together, the longest first.
#[derive(Clone, Copy, Debug)]
struct Round {
    sizes: [u16; 3],
    sent: usize,
    /// The longest that was answered; 0: none.
    best: u16,
    began: Time,
}

impl Round {
    fn shortest(&self) -> u16 {
        self.sizes.iter().copied().filter(|size| *size > 0).min().unwrap_or(0)
    }
}

impl PathMtu {
    /// Of a path that is to carry datagrams of `max` bytes, if it can.
    pub fn new(now: Time, max: u16) -> Self {
        let mut path = PathMtu {
            max,
            size: max.min(MIN_BYTES),
            low: 0,
            high: max.saturating_add(1),
            refuted: false,
            failures: 0,
            most_lost: MAX_PROBES,
            silence: Duration::ZERO,
            rtt: None,
            round: None,
            next_round: Some(now),
            pause: Duration::ZERO,
            unanswered: None,
            doubted: false,
        };
        if max <= MIN_BYTES {
            (path.low, path.next_round) = (max, None);
        }
        path
    }

    /// A path that is known to carry datagrams of `max` bytes: no longer ones are to be sent.
    pub fn known(now: Time, max: u16) -> Self {
        PathMtu { size: max, low: max, next_round: None, ..Self::new(now, max) }
    }

    /// Datagrams of up to `max` bytes are to be sent from now on, if the path carries them.
    pub fn want(&mut self, now: Time, max: u16) {
        if max <= self.max {
            return;
        }
        // Unless something is known to be too long, this is what is tried next; after a doubt, if there is one.
        if self.high > self.max {
            self.high = max.saturating_add(1);
            if !self.doubted {
                (self.round, self.next_round) = (None, Some(now));
            }
        }
        self.max = max;
    }

    /// Nothing is sent for a while, and nothing of what was sent is waited for.
    pub fn rest(&mut self) {
        self.unanswered = None;
    }

    /// What may be sent: the path carries it, as far as is known.
    pub fn size(&self) -> u16 {
        self.size
    }

    /// Whether the search is over (SearchComplete, section 5.2): nothing longer is tried before `RAISE`.
    pub fn is_settled(&self) -> bool {
        self.low > 0 && self.high - self.low <= if self.refuted { STEP } else { 1 }
    }

    /// Whether full-sized datagrams are swallowed, perhaps.
    pub fn is_doubted(&self) -> bool {
        self.doubted
    }

    /// The share of datagrams that is lost, and the round trip if it is known: how often a probe is repeated, and how long it takes.
    pub fn measure(&mut self, loss: f64, rtt: Option<Duration>) {
        let enough = (MOST_ERROR.ln() / loss.clamp(1e-9, 0.99).ln()).ceil();
        self.most_lost = (enough as u32).clamp(MAX_PROBES, MOST_PROBES);
        self.rtt = rtt.or(self.rtt);
        self.silence = if loss > MOST_LOSS { LONG_SILENCE } else { Duration::ZERO };
    }

    /// What is sent while the longest is not known to pass (BASE_PLPMTU).
    fn base(&self) -> u16 {
        BASE_BYTES.min(self.candidate())
    }

    /// The length in question.
    fn candidate(&self) -> u16 {
        match (self.doubted, self.refuted) {
            (true, _) => self.size,
            (false, true) => self.low + (self.high - self.low) / 2,
            (false, false) => self.high - 1,
        }
    }

    /// How long an answer may take.
    fn patience(&self) -> Duration {
        self.rtt.map_or(PROBE_TIMER, |rtt| 2 * rtt + PROBE_MARGIN)
    }

    /// The length of a probe that is to go now, if one is.
    pub fn poll_probe(&mut self, now: Time) -> Option<u16> {
        self.handle_timeout(now);
        if self.round.is_none() && self.next_round.is_some_and(|at| at <= now) {
            self.next_round = None;
            let mut sizes = match self.low {
                0 => [self.candidate(), self.base(), MIN_BYTES.min(self.candidate())],
                low => [self.candidate(), low, 0],
            };
            // In some cases two of them are the same.
            for at in 1..sizes.len() {
                if sizes[..at].contains(&sizes[at]) {
                    sizes[at] = 0;
                }
            }
            self.round = Some(Round { sizes, sent: 0, best: 0, began: now });
        }
        let round = self.round.as_mut()?;
        let (at, size) =
            round.sizes.iter().copied().enumerate().skip(round.sent).find(|(_, size)| *size > 0)?;
        round.sent = at + 1;
        Some(size)
    }

    /// A probe of `bytes` has come through.
    pub fn on_answered(&mut self, now: Time, bytes: u16) {
        let asked = |round: &Round| round.sizes[..round.sent].contains(&bytes);
        let Some(round) = self.round.as_mut().filter(|round| bytes > 0 && asked(round)) else {
            // It is late: shorter ones, or a later round, have overtaken it. It may be from before a doubt, though.
            if bytes == self.candidate() && !self.doubted && !self.is_settled() {
                self.confirm(bytes);
                self.unanswered = None;
                self.go_on(now);
            }
            return;
        };
        round.best = round.best.max(bytes);
        if round.best == round.sizes[0] || bytes == round.shortest() {
            let (best, round) = (round.best, self.round.take());
            self.conclude(now, best, round.map_or(0, |round| round.sizes[0]));
        }
    }

    /// Lets timers expire.
    pub fn handle_timeout(&mut self, now: Time) {
        let patience = self.patience();
        if let Some(round) = self.round.take_if(|round| round.began + patience <= now) {
            self.conclude(now, round.best, round.sizes[0]);
        }
        if self.doubt_at().is_some_and(|at| at <= now) {
            self.doubt(now);
        }
        if self.is_settled() && !self.doubted && self.next_round.is_some_and(|at| at <= now) {
            // Hearsay is forgotten as well.
            (self.high, self.refuted, self.failures) = (self.max.saturating_add(1), false, 0);
        }
    }

    /// When [`PathMtu::poll_probe`] has something to do without any input.
    pub fn poll_timeout(&self) -> Option<Time> {
        let round = self.round.as_ref().map(|round| {
            let unsent = round.sizes[round.sent..].iter().any(|size| *size > 0);
            if unsent { Time::ZERO } else { round.began + self.patience() }
        });
        let next_round = self.next_round.filter(|_| self.round.is_none());
        round.into_iter().chain(next_round).chain(self.doubt_at()).min()
    }

    /// When it comes into question whether `size` passes. While nothing is known, it is in question anyway.
    fn doubt_at(&self) -> Option<Time> {
        let lost = MOST_LOST.max(self.most_lost);
        let (since, _) = self.unanswered.filter(|(_, count)| *count >= lost && self.low > 0)?;
        Some(since + self.patience() + self.silence)
    }

    /// Datagrams were sent that are as long as the path carries, or nearly so.
    pub fn on_sent(&mut self, now: Time, datagrams: u32) {
        if self.max > MIN_BYTES {
            let (since, count) = self.unanswered.unwrap_or((now, 0));
            self.unanswered = Some((since, count.saturating_add(datagrams)));
        }
    }

    /// One of them has come, after which so many were sent.
    pub fn on_arrived(&mut self, now: Time, datagrams: u32) {
        self.unanswered = (datagrams > 0 && self.max > MIN_BYTES).then_some((now, datagrams));
        if std::mem::take(&mut self.doubted) {
            self.confirm(self.size);
            self.round = None;
            self.go_on(now);
        }
    }

    /// A router says, or the system, that the path carries no more than `bytes`. Anybody could say so (section 4.6.2): nothing longer is
    /// tried for a while, and only if it is so.
    pub fn hint(&mut self, now: Time, bytes: u16) {
        let bytes = bytes.max(MIN_BYTES);
        if bytes >= self.high.saturating_sub(1) || self.max <= MIN_BYTES {
            return;
        }
        (self.high, self.refuted, self.failures) = (bytes + 1, false, 0);
        self.round = None;
        if self.size > bytes {
            self.size = if bytes >= BASE_BYTES { BASE_BYTES } else { MIN_BYTES };
            (self.low, self.doubted) = (0, false);
        } else if self.low > bytes {
            self.low = 0;
        }
        (self.next_round, self.pause) = (Some(now), Duration::ZERO);
        if self.is_settled() {
            self.go_on(now);
        }
    }

    /// Perhaps the path carries less than before: it is tried whether it is the length (section 4.3).
    fn doubt(&mut self, now: Time) {
        (self.doubted, self.failures) = (true, 0);
        (self.low, self.round) = (0, None);
        (self.next_round, self.pause) = (Some(now), Duration::ZERO);
    }

    fn confirm(&mut self, bytes: u16) {
        (self.low, self.failures) = (bytes, 0);
        self.size = bytes;
    }

    /// A round is over: `best` was answered, and `first` was the length in question.
    fn conclude(&mut self, now: Time, best: u16, first: u16) {
        if best == 0 {
            // Nothing passes, whatever its length.
            self.next_round = Some(now + self.pause);
            self.pause = (2 * self.pause).clamp(self.patience(), LONGEST_PAUSE.max(self.patience()));
            return;
        }
        self.pause = Duration::ZERO;
        // Full queues lose long datagrams rather than short ones: where much is lost, one round tells nothing.
        if self.doubted && best < first && self.most_lost > MAX_PROBES && self.failures + 1 < self.most_lost {
            (self.failures, self.next_round) =
                (self.failures + 1, Some(now + self.rtt.unwrap_or(PROBE_TIMER)));
            return;
        }
        let base = self.base();
        if self.low == 0 {
            // What was sent in vain was too long, or was lost for another reason: it is no cause of another doubt.
            self.unanswered = None;
            if std::mem::take(&mut self.doubted) {
                if best == first {
                    self.confirm(best);
                    return self.go_on(now);
                }
                (self.high, self.refuted) = (first + 1, false);
            }
            self.size = best;
            if best >= base {
                self.low = best;
                self.failures = u32::from(best < first);
            } else {
                self.fail(base);
            }
        } else if best > self.low {
            self.confirm(best);
        } else {
            self.fail(first);
        }
        self.go_on(now);
    }

    /// `bytes` were not answered, and others were.
    fn fail(&mut self, bytes: u16) {
        self.failures += 1;
        if self.failures >= self.most_lost {
            (self.high, self.refuted, self.failures) = (bytes, true, 0);
            // Not even the base: the path is beneath it (Error, section 5.2).
            self.low = self.low.max(self.size);
        }
    }

    /// Goes on with the search, or ends it.
    fn go_on(&mut self, now: Time) {
        let raises = self.low < self.max;
        self.next_round = match self.is_settled() {
            true => raises.then(|| now + RAISE),
            false => Some(now),
        };
    }
}
