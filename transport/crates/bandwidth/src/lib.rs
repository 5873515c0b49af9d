//! A client of the controller's available-bandwidth service (docs/api.md): announces a flow, follows its share, withdraws it.
//!
//! It goes on trying for as long as it lives: how long a rate holds when the controller is gone is its user's affair.

mod events;
mod service;

pub use service::{Error, PathLoss, Service};

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::service::Share;

/// Between two renewals, at most: the controller forgets a flow after five seconds without.
const LONGEST_RENEWAL: Duration = Duration::from_secs(1);
/// Before the controller is asked again that did not answer.
const PAUSE: Duration = Duration::from_millis(250);

/// A flow to announce.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Its name, which nobody else may use: letters, digits, and any of `._:-`.
    pub name: String,
    /// The host that sends.
    pub src: IpAddr,
    /// The host that receives.
    pub dst: IpAddr,
    /// What it wants at most, in bit/s.
    pub most_bps: Option<u64>,
}

/// What is known of a flow's rate.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// It may send so much, in bit/s of whole Ethernet frames.
    Rate(f64),
    /// What was said last still holds.
    Confirmed,
    /// The controller cannot be asked, or does not know a path; why.
    Trouble(String),
}

/// Follows a flow's rate until it is dropped, which withdraws the flow.
pub struct Following {
    service: Service,
    flow: Flow,
    ended: Arc<AtomicBool>,
    tell: Teller,
}

/// Who is told, and the rate that he was told last.
struct Told {
    tell: Box<dyn FnMut(News) -> bool + Send>,
    latest_bps: Option<f64>,
    dscp: u8,
}

type Teller = Arc<Mutex<Told>>;

impl Following {
    /// Announces a flow, and has `tell` called, from threads, with everything there is to know of it. It returns whether it
    /// wants to be called again. What was said is confirmed three times within `expiry`.
    ///
    /// # Errors
    /// The first announcement fails: the controller cannot be reached, refuses it, or knows no path.
    pub fn start(
        service: Service,
        flow: Flow,
        expiry: Duration,
        tell: impl FnMut(News) -> bool + Send + 'static,
    ) -> Result<Self, Error> {
        let first = service.announce(&flow)?;
        let told = Told { tell: Box::new(tell), latest_bps: None, dscp: first.dscp.unwrap_or(0) };
        let tell: Teller = Arc::new(Mutex::new(told));
        let ended = Arc::new(AtomicBool::new(false));
        if let Some(bps) = first.rate_bps {
            say(&tell, News::Rate(bps));
        }
        let pause = (expiry / 3).min(LONGEST_RENEWAL);
        let begin = |name: &str, work: fn(&Service, &Flow, &Teller, &AtomicBool, Duration)| {
            let (service, flow, tell, ended) = (service.clone(), flow.clone(), tell.clone(), ended.clone());
            thread::Builder::new()
                .name(name.into())
                .spawn(move || work(&service, &flow, &tell, &ended, pause))
        };
        begin("renewal", renew).map_err(Error::Thread)?;
        begin("rates", follow).map_err(Error::Thread)?;
        Ok(Following { service, flow, ended, tell })
    }

    /// The DSCP by which the switches know packets of such flows, 0 if they do not: what was said last.
    pub fn dscp(&self) -> u8 {
        lock(&self.tell).dscp
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // The controller forgets it in any case, after a while.
        let _ = self.service.withdraw(&self.flow.name);
    }
}

fn lock(tell: &Teller) -> MutexGuard<'_, Told> {
    tell.lock().unwrap_or_else(PoisonError::into_inner)
}

/// False: nobody is there any more.
fn say(tell: &Teller, news: News) -> bool {
    let mut told = lock(tell);
    match news {
        News::Rate(bps) => told.latest_bps = Some(bps),
        News::Confirmed => {}
        // What follows is news, whatever it is.
        News::Trouble(_) => told.latest_bps = None,
    }
    (told.tell)(news)
}

/// What a share is news of.
fn news_of(share: &Share, tell: &Teller) -> News {
    let mut told = lock(tell);
    told.dscp = share.dscp.unwrap_or(0);
    match share.rate_bps {
        None => News::Trouble("the controller knows no path now".into()),
        Some(bps) if told.latest_bps == Some(bps) => News::Confirmed,
        Some(bps) => News::Rate(bps),
    }
}

/// Keeps the flow known, once in a `renewal`; announces it again to a controller that has forgotten it.
fn renew(service: &Service, flow: &Flow, tell: &Teller, ended: &AtomicBool, renewal: Duration) {
    let (mut announced, mut doubted) = (true, false);
    while !ended.load(Ordering::Relaxed) {
        let asked = if announced { service.renew(&flow.name) } else { service.announce(flow).map(Some) };
        let (news, pause) = match asked {
            Ok(Some(share)) => {
                announced = true;
                let news = news_of(&share, tell);
                // It may have been overtaken by what the stream has told since: so it is asked for once more.
                let differs = matches!(news, News::Rate(_));
                if differs && !std::mem::replace(&mut doubted, differs) {
                    continue;
                }
                doubted = false;
                (news, renewal)
            }
            // It was started again, or we were late.
            Ok(None) => {
                announced = false;
                continue;
            }
            Err(error) => (News::Trouble(error.to_string()), PAUSE),
        };
        // A flow that was withdrawn while it was renewed is to stay so.
        if ended.load(Ordering::Relaxed) {
            let _ = service.withdraw(&flow.name);
            return;
        }
        if !say(tell, news) {
            return;
        }
        thread::sleep(pause);
    }
}

/// Hears of changes as they are reckoned.
fn follow(service: &Service, flow: &Flow, tell: &Teller, ended: &AtomicBool, _: Duration) {
    while !ended.load(Ordering::Relaxed) {
        if let Ok(stream) = service.stream(&flow.name) {
            for share in stream {
                let told = share.rate_bps.is_none_or(|bps| say(tell, News::Rate(bps)));
                if !told || ended.load(Ordering::Relaxed) {
                    return;
                }
            }
        }
        // Trouble is the renewals' to tell of.
        thread::sleep(PAUSE);
    }
}
