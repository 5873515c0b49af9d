//! Where the rate comes from: the command line, the controller, or nobody but TFRC.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use bandwidth::{Flow, Following, News, Service};
use udp::{RateNews, RateTeller};

use crate::Failure;
use crate::args::Send;
use crate::serve::seconds;

/// Keeps the sender of the present connection told.
pub(super) struct Rates {
    line: Arc<Mutex<Line>>,
    /// Withdraws the flow when it is dropped.
    following: Option<Following>,
    dscp: Option<u8>,
}

#[derive(Default)]
struct Line {
    teller: Option<RateTeller>,
    latest_bps: Option<f64>,
    /// What was said and when, and has not been told to the user.
    changes: Vec<(f64, SystemTime)>,
    /// What went wrong, and has not been either.
    troubles: Vec<String>,
    in_trouble: bool,
}

impl Line {
    fn hear(&mut self, news: News) {
        let news = match news {
            News::Rate(bps) => {
                if self.latest_bps.replace(bps) != Some(bps) {
                    self.changes.push((bps, SystemTime::now()));
                }
                RateNews::Rate(bps)
            }
            News::Confirmed => RateNews::Confirmed,
            News::Trouble(why) => {
                // Once is enough, until it has passed.
                if !std::mem::replace(&mut self.in_trouble, true) {
                    self.troubles.push(why);
                }
                return;
            }
        };
        self.in_trouble = false;
        if let Some(teller) = &self.teller {
            // One that is gone will be replaced.
            teller.tell(news);
        }
    }
}

impl Rates {
    /// The source that the options name.
    pub(super) fn of(args: &Send, to: SocketAddr) -> Result<Self, Failure> {
        let line = Arc::new(Mutex::new(Line { latest_bps: args.rate, ..Line::default() }));
        let following = match (&args.rate_from, &args.token_file) {
            (Some(url), Some(file)) => {
                let token = std::fs::read_to_string(file)
                    .map_err(|e| Failure::new(format!("{}: {e}", file.display())))?;
                let service =
                    Service::new(url, token.trim(), args.rate_ca.as_deref()).map_err(Failure::new)?;
                let heard = line.clone();
                let tell = move |news| {
                    lock(&heard).hear(news);
                    true
                };
                let expiry = seconds("--expiry", args.expiry)?;
                let following = Following::start(service, flow(args, to)?, expiry, tell).map_err(|e| {
                    Failure::new(format!(
                        "no rate from the controller (--rate or --tfrc send without it): {e}"
                    ))
                })?;
                Some(following)
            }
            _ => None,
        };
        Ok(Rates { line, following, dscp: args.dscp })
    }

    /// What is to be sent is to bear this DSCP.
    pub(super) fn dscp(&self) -> u8 {
        let told = || self.following.as_ref().map_or(0, Following::dscp);
        self.dscp.unwrap_or_else(told)
    }

    /// The sender of a new connection, which is told what is known.
    pub(super) fn attach(&self, teller: RateTeller) {
        let mut line = lock(&self.line);
        if let Some(bps) = line.latest_bps.filter(|_| !line.in_trouble) {
            teller.tell(RateNews::Rate(bps));
        }
        line.teller = Some(teller);
    }

    /// The rates that were told since the last call, and when.
    pub(super) fn changes(&self) -> Vec<(f64, SystemTime)> {
        std::mem::take(&mut lock(&self.line).changes)
    }

    /// What went wrong since the last call.
    pub(super) fn troubles(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.line).troubles)
    }
}

fn lock(line: &Mutex<Line>) -> MutexGuard<'_, Line> {
    line.lock().unwrap_or_else(PoisonError::into_inner)
}

fn flow(args: &Send, to: SocketAddr) -> Result<Flow, Failure> {
    let src = udp::local_address(to).map_err(|e| Failure::new(format!("{}: {e}", args.to.name)))?;
    // No two processes of a host have the same number at the same time.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let made_up = || format!("fountain-{src}-{}-{}", std::process::id(), now.as_micros());
    let name = args.flow.clone().unwrap_or_else(made_up);
    let most_bps = args.limit.map(|bps| bps as u64);
    Ok(Flow { name, src, dst: to.ip().to_canonical(), most_bps })
}
