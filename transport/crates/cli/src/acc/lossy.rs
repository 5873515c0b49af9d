//! Which peers the layer is used for, if that is left to the controller: those to or from which it sees packets lost.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use bandwidth::{PathLoss, Service};
use proto::acc::packet::Pair;
use serde_json::json;
use udp::acc::Handle;

use crate::Failure;
use crate::args::AccUp;
use crate::console::{complain, print, say};
use crate::serve::seconds;

/// The controller is asked about all peers this often; about so many at a time, if there are more.
const PAUSE: Duration = Duration::from_secs(1);
const MOST_PEERS: usize = 64;

/// When a peer counts as one with losses on the way, and when not any more.
#[derive(Clone, Copy, Debug)]
struct Thresholds {
    on: f64,
    off: f64,
    hold: Duration,
}

/// What is decided of a peer.
#[derive(Debug, Default)]
struct Decision {
    /// When more than `off` was lost, for the last time; none: it is sent to without the layer.
    lossy: Option<Instant>,
    asked: Option<Instant>,
}

impl Decision {
    /// So much is lost there and back, as far as that is known. Returns whether the layer is to be used, if that has changed.
    ///
    /// It is once more is lost for sure, and as long as more is lost probably: as the controller has it of links between switches.
    fn hear(&mut self, thresholds: &Thresholds, losses: &[PathLoss], now: Instant) -> Option<bool> {
        match self.lossy {
            None if losses.iter().any(|of| of.least() > thresholds.on) => {
                self.lossy = Some(now);
                Some(true)
            }
            Some(_) if losses.iter().any(|of| of.least() > 0.0 && of.loss > thresholds.off) => {
                self.lossy = Some(now);
                None
            }
            Some(last) if now.duration_since(last) >= thresholds.hold => {
                self.lossy = None;
                Some(false)
            }
            _ => None,
        }
    }
}

/// Asks the controller, and has the layer used accordingly.
pub(super) struct Lossy {
    service: Service,
    thresholds: Thresholds,
}

impl Lossy {
    /// As the options say; none if all peers are sent to through the layer.
    pub(super) fn of(args: &AccUp) -> Result<Option<Self>, Failure> {
        let (Some(url), Some(file)) = (&args.losses_from, &args.token_file) else { return Ok(None) };
        let share = |option: &str, value: f64| match value {
            0.0..1.0 => Ok(value),
            _ => Err(Failure::usage(format!("{option}: a share, from 0 to below 1"))),
        };
        let (on, off) = (share("--on-loss", args.on_loss)?, share("--off-loss", args.off_loss)?);
        if off >= on {
            return Err(Failure::usage(format!("--off-loss {off} is not below --on-loss {on}")));
        }
        let token =
            std::fs::read_to_string(file).map_err(|e| Failure::new(format!("{}: {e}", file.display())))?;
        let service = Service::new(url, token.trim(), args.losses_ca.as_deref()).map_err(Failure::new)?;
        Ok(Some(Lossy { service, thresholds: Thresholds { on, off, hold: seconds("--hold", args.hold)? } }))
    }

    /// Goes on until the layer has ended.
    pub(super) fn follow(&self, layer: &Handle, json: bool) {
        let mut decisions: HashMap<Pair, Decision> = HashMap::new();
        let mut trouble = String::new();
        while let Some(all) = layer.statistics() {
            let up: HashSet<Pair> = all.peers.iter().filter(|peer| peer.up).map(|peer| peer.pair).collect();
            // Of one that is away for a moment it has to be decided anew.
            decisions.retain(|pair, decision| {
                let is_there = up.contains(pair);
                if !is_there && decision.lossy.is_some() {
                    layer.use_for(*pair, false);
                }
                is_there
            });
            // Whose turn it is: whoever was asked about least recently.
            let mut peers: Vec<Pair> = up.into_iter().collect();
            peers.sort_by_key(|pair| decisions.get(pair).and_then(|decision| decision.asked));
            for pair in peers.into_iter().take(MOST_PEERS) {
                let asked = self.losses(pair);
                let (now, losses) = (Instant::now(), asked.clone().unwrap_or_default());
                match asked {
                    Ok(_) => trouble.clear(),
                    // Once is enough, until it is another one.
                    Err(e) if e == trouble => {}
                    Err(e) => {
                        complain(&format!("losses on the way to {}: {e}", pair.remote));
                        trouble = e;
                    }
                }
                let decision = decisions.entry(pair).or_default();
                decision.asked = Some(now);
                if let Some(so) = decision.hear(&self.thresholds, &losses, now) {
                    layer.use_for(pair, so);
                    tell(pair, so, &losses, json);
                }
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// What is lost on the way to a peer, and back, as far as that is known: acknowledgements are as needed as data.
    fn losses(&self, pair: Pair) -> Result<Vec<PathLoss>, String> {
        let there = self.service.loss(pair.local, pair.remote).map_err(|e| e.to_string())?;
        let back = self.service.loss(pair.remote, pair.local).map_err(|e| e.to_string())?;
        Ok(there.into_iter().chain(back).collect())
    }
}

fn tell(pair: Pair, so: bool, losses: &[PathLoss], json: bool) {
    let loss = losses.iter().map(|of| of.loss).reduce(f64::max);
    if json {
        let event = if so { "used" } else { "unused" };
        say(&json!({ "event": event, "peer": pair.remote, "local": pair.local, "loss": loss }));
    } else if so {
        let percent = 100.0 * loss.unwrap_or_default();
        print(format_args!(
            "{percent:.2} % is lost on the way to {}: TCP goes through the layer",
            pair.remote
        ));
    } else {
        print(format_args!("nothing is lost on the way to {}: TCP goes without the layer", pair.remote));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_used_from_one_threshold_on_until_losses_were_below_the_other_for_long() {
        let thresholds = Thresholds { on: 0.001, off: 0.0002, hold: Duration::from_secs(30) };
        let (begin, mut decision) = (Instant::now(), Decision::default());
        for (second, loss, expected) in [
            (0, None, None),
            (1, Some((0.0009, 0.0)), None),
            // It may be that as little is lost as before.
            (1, Some((0.002, 0.0015)), None),
            (2, Some((0.002, 0.0005)), Some(true)),
            (3, Some((0.002, 0.0)), None),
            (20, Some((0.0003, 0.0002)), None),
            (21, Some((0.0, 0.0)), None),
            // It may be that nothing is lost.
            (30, Some((0.0003, 0.0004)), None),
            (49, None, None),
            (50, None, Some(false)),
            (51, Some((0.0009, 0.0)), None),
            (52, Some((0.5, 0.1)), Some(true)),
        ] {
            let now = begin + Duration::from_secs(second);
            let losses: Vec<_> = loss.into_iter().map(|(loss, error)| PathLoss { loss, error }).collect();
            assert_eq!(decision.hear(&thresholds, &losses, now), expected, "{second} s");
        }
        // Little that is sure one way counts beside more that is not the other way.
        let both = [PathLoss { loss: 0.01, error: 0.0095 }, PathLoss { loss: 0.002, error: 0.0 }];
        assert_eq!(Decision::default().hear(&thresholds, &both, begin), Some(true));
    }
}
