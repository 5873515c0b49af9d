//! Whom the layer serves: the TCP of a host, or a port of a switch.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use proto::acc::Event;
use proto::acc::packet::{ETHERNET_BYTES, FORM_BYTES, Look, Pair, restore, restore_frame};
use proto::ecn::Codepoint;
use wire::acc::{NUMBERED_BYTES, PACKET_BYTES, TAG_BYTES};

use super::{News, UDP_BYTES};
use crate::path::path_mtu;
use crate::tun::{Device, Joining, Routes, Routing, set_up_port, split};

/// A sum is so much longer than the longest of its packets.
const SUM_BYTES: usize = 2;
/// What a path of IP carries at least (RFC 8200, section 5; hardly any of IPv4 carries less).
const LEAST_MTU: usize = 1280;

/// By how much a host's packet is longer on the wire than without the layer: its header of IPv4 is left out, or that of IPv6.
const OVERHEAD: usize = UDP_BYTES + PACKET_BYTES + NUMBERED_BYTES + SUM_BYTES + FORM_BYTES + TAG_BYTES;

/// By how much a datagram is longer than the packet in its frame: nothing is left out.
const fn overhead_of_frames(ip_bytes: usize) -> usize {
    let form = 1;
    ip_bytes + UDP_BYTES + PACKET_BYTES + NUMBERED_BYTES + SUM_BYTES + form + ETHERNET_BYTES + TAG_BYTES
}

/// A device, and what is done with its packets.
pub(super) struct Side {
    device: Device,
    kind: Kind,
    /// The longest packet of IP that the layer sends.
    mtu: usize,
    tell: Sender<News>,
    /// Packets that were not taken back, or that were none.
    pub(super) undelivered: u64,
}

enum Kind {
    Host {
        joining: Joining,
        routes: Option<Sender<Route>>,
        /// Changes routes, as that takes milliseconds.
        changing: Option<JoinHandle<()>>,
        /// None: packets to all peers go through the device.
        chosen: Option<Chosen>,
    },
    Port {
        /// Those of the link, once there is a way to its other end.
        ends: Option<Pair>,
        frame: Vec<u8>,
    },
}

/// Those to whom packets are to go through the device if they are peers; and the peers, with how long packets to them may be.
#[derive(Default)]
struct Chosen {
    wanted: HashSet<Pair>,
    up: HashMap<Pair, usize>,
}

/// A change of routes, and the event to tell of when it is done.
enum Route {
    Set(Pair, usize, Option<Event>),
    Remove(Pair, Option<Event>),
}

impl Side {
    /// That of a host: a rule sends TCP's packets to peers through `device`.
    pub(super) fn host(
        device: Device,
        mtu: usize,
        routing: &Routing,
        ipv6: bool,
        chosen: bool,
        tell: Sender<News>,
    ) -> io::Result<Self> {
        let routes = Routes::set_up(device.name(), mtu - OVERHEAD, routing, ipv6)?;
        let (orders, from_side) = channel();
        let trouble = tell.clone();
        let changing = std::thread::Builder::new().name("acc-routes".to_owned()).spawn(move || {
            change_routes(&routes, &from_side, &trouble);
        })?;
        let kind = Kind::Host {
            joining: Joining::new(),
            routes: Some(orders),
            changing: Some(changing),
            chosen: chosen.then(Chosen::default),
        };
        Ok(Side { device, kind, mtu, tell, undelivered: 0 })
    }

    /// That of a switch, which has `device` as a port of a link to `other`. The port has no carrier until the other end is there.
    pub(super) fn port(device: Device, mtu: usize, other: IpAddr, tell: Sender<News>) -> io::Result<Self> {
        let overhead = overhead_of_frames(if other.is_ipv4() { 20 } else { 40 });
        device.set_carrier(false)?;
        set_up_port(device.name(), mtu - overhead)?;
        let kind = Kind::Port { ends: None, frame: Vec::new() };
        Ok(Side { device, kind, mtu, tell, undelivered: 0 })
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// There is a way to a peer.
    pub(super) fn found(&mut self, pair: Pair) {
        if let Kind::Port { ends, .. } = &mut self.kind {
            *ends = Some(pair);
        }
    }

    /// Reads what the device has as one, and gives `each` its packets, in two parts. False: there was nothing.
    pub(super) fn read(
        &mut self,
        buffer: &mut [u8],
        mut each: impl FnMut(&Look, &[u8], &[u8]),
    ) -> io::Result<bool> {
        let Some(length) = self.device.read(buffer)? else { return Ok(false) };
        let read = &mut buffer[..length];
        let is_good = match &self.kind {
            Kind::Host { .. } => split(read, |head, rest| {
                if let Ok(look) = Look::at(head) {
                    each(&look, head, rest);
                }
            })
            .is_ok(),
            Kind::Port { ends, .. } => match ends.and_then(|ends| Look::at_frame(ends, read).ok()) {
                Some(look) => {
                    each(&look, read, &[]);
                    true
                }
                None => false,
            },
        };
        self.undelivered += u64::from(!is_good);
        Ok(true)
    }

    /// Gives the device a packet that has come. It may wait for others; see [`Side::finish`].
    pub(super) fn give(&mut self, pair: &Pair, ecn: Codepoint, carried: &[u8]) {
        let Side { device, kind, undelivered, .. } = self;
        match kind {
            Kind::Host { joining, .. } => {
                let (mut refused, mut broken) = (0, false);
                joining.add(
                    |out| {
                        let begin = out.len();
                        if restore(pair, ecn, carried, out).is_err() {
                            out.truncate(begin);
                            broken = true;
                        }
                    },
                    |packet| refused += u64::from(!device.write(packet)),
                );
                *undelivered += refused + u64::from(broken);
            }
            Kind::Port { ends, frame } => {
                frame.clear();
                // Others who have the key are no ends of this link.
                let is_good = *ends == Some(*pair) && restore_frame(ecn, carried, frame).is_ok();
                *undelivered += u64::from(!is_good || !device.write(frame));
            }
        }
    }

    /// Gives the device what has waited.
    pub(super) fn finish(&mut self) {
        let Side { device, kind, undelivered, .. } = self;
        if let Kind::Host { joining, .. } = kind {
            joining.finish(|packet| *undelivered += u64::from(!device.write(packet)));
        }
    }

    /// Has packets take their way through the device, or not any more, and tells of it.
    pub(super) fn on_event(&mut self, event: Event, port: u16) {
        let (Event::Up(pair) | Event::Down(pair, _)) = event;
        let is_up = matches!(event, Event::Up(_));
        let known = if is_up { path_mtu(SocketAddr::new(pair.remote, port)).ok() } else { None };
        let known = known.unwrap_or(self.mtu);
        let mtu = known.clamp(LEAST_MTU, self.mtu) - OVERHEAD;
        match &mut self.kind {
            Kind::Host { chosen, .. } => {
                let is_wanted = chosen.as_mut().is_none_or(|chosen| {
                    if is_up {
                        chosen.up.insert(pair, mtu);
                    } else {
                        chosen.up.remove(&pair);
                    }
                    chosen.wanted.contains(&pair)
                });
                if !is_wanted {
                    let _ = self.tell.send(News::Peer(event));
                } else if is_up {
                    self.order(Route::Set(pair, mtu, Some(event)));
                } else {
                    self.order(Route::Remove(pair, Some(event)));
                }
            }
            Kind::Port { ends, .. } if *ends == Some(pair) => {
                if let Err(e) = self.device.set_carrier(is_up) {
                    self.trouble(e.to_string());
                }
                let _ = self.tell.send(News::Peer(event));
                if known < self.mtu {
                    self.trouble_of_mtu(pair.remote, known);
                }
            }
            // Somebody else who has the key.
            Kind::Port { .. } => {}
        }
    }

    /// Has packets to a peer take their way through the device, or not any more, if that is to be chosen.
    pub(super) fn use_for(&mut self, pair: Pair, so: bool) {
        let Kind::Host { chosen: Some(chosen), .. } = &mut self.kind else { return };
        let has_changed = if so { chosen.wanted.insert(pair) } else { chosen.wanted.remove(&pair) };
        let Some(mtu) = chosen.up.get(&pair).copied().filter(|_| has_changed) else { return };
        self.order(if so { Route::Set(pair, mtu, None) } else { Route::Remove(pair, None) });
    }

    /// The path to peers carries less than was thought.
    pub(super) fn shorten(&mut self, pairs: impl Iterator<Item = Pair>, mtu: usize) {
        let route_mtu = mtu.clamp(LEAST_MTU, self.mtu) - OVERHEAD;
        for pair in pairs {
            match &mut self.kind {
                Kind::Host { chosen: None, .. } => self.order(Route::Set(pair, route_mtu, None)),
                Kind::Host { chosen: Some(chosen), .. } => {
                    chosen.up.insert(pair, route_mtu);
                    if chosen.wanted.contains(&pair) {
                        self.order(Route::Set(pair, route_mtu, None));
                    }
                }
                Kind::Port { .. } => self.trouble_of_mtu(pair.remote, mtu),
            }
        }
    }

    pub(super) fn trouble(&self, what: String) {
        // Whoever listens may have gone.
        let _ = self.tell.send(News::Trouble(what));
    }

    fn trouble_of_mtu(&self, remote: IpAddr, mtu: usize) {
        self.trouble(format!(
            "the way to {remote} carries packets of {mtu} bytes, not {}: long frames are lost; raise its MTU, or begin with --mtu {mtu}",
            self.mtu
        ));
    }

    fn order(&self, order: Route) {
        if let Kind::Host { routes: Some(routes), .. } = &self.kind {
            let _ = routes.send(order);
        }
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        if let Kind::Host { routes, changing, .. } = &mut self.kind {
            // The thread ends with its sender, and takes the rule with it.
            *routes = None;
            if let Some(thread) = changing.take() {
                let _ = thread.join();
            }
        }
    }
}

/// Changes routes, and tells what has happened once they are as they should be.
fn change_routes(routes: &Routes, orders: &Receiver<Route>, tell: &Sender<News>) {
    while let Ok(order) = orders.recv() {
        let (done, event) = match order {
            Route::Set(pair, mtu, event) => (routes.add(&pair, mtu), event),
            Route::Remove(pair, event) => (routes.remove(&pair), event),
        };
        let trouble = done.err().map(|e| News::Trouble(e.to_string()));
        for news in trouble.into_iter().chain(event.map(News::Peer)) {
            // Whoever listens may have gone.
            let _ = tell.send(news);
        }
    }
}
