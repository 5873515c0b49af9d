//! The event loop: nodes, links, routes, control pipes.

use std::any::Any;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use crate::hop::Hop;
use crate::pipe::Pipe;
use crate::{Datagram, FlowCounters, Link, LinkConfig, Node, NodeId, Output, Rng, Time};

/// A link of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub usize);

/// How often a node may be called or may send without time going on: more is a node that never comes to rest.
const RESTLESS: u32 = 1_000_000;

/// Nodes, links between them, and the time.
pub struct Network {
    now: Time,
    rng: Rng,
    nodes: Vec<Slot>,
    links: Vec<Link>,
    routes: BTreeMap<(NodeId, NodeId), Rc<[LinkId]>>,
    pipes: BTreeMap<(NodeId, NodeId), Pipe>,
    flows: BTreeMap<(NodeId, NodeId), FlowCounters>,
    slice: Option<Duration>,
    traces: BTreeMap<LinkId, Trace>,
    events: BinaryHeap<Reverse<Scheduled>>,
    scheduled: u64,
}

struct Slot {
    /// None once it has vanished.
    node: Option<Box<dyn Node>>,
    /// The timer event that counts; others are of the past.
    timer: Option<(Time, u64)>,
    /// Calls at one and the same time.
    calls: (Time, u32),
}

struct Trace {
    every: Duration,
    samples: Vec<(Time, u64)>,
}

enum Event {
    Timer { node: NodeId, number: u64 },
    Sent(LinkId),
    Arrival(Hop),
    Control { from: NodeId, to: NodeId, message: Vec<u8> },
    ControlClosed { from: NodeId, to: NodeId },
    Sample(LinkId),
}

/// An event, ordered by its time and then by when it was scheduled.
struct Scheduled {
    at: Time,
    number: u64,
    event: Event,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl Network {
    /// An empty network at time 0. All that is random in it follows from `seed`.
    pub fn new(seed: u64) -> Self {
        Network {
            now: Time::ZERO,
            rng: Rng::new(seed),
            nodes: Vec::new(),
            links: Vec::new(),
            routes: BTreeMap::new(),
            pipes: BTreeMap::new(),
            flows: BTreeMap::new(),
            slice: None,
            traces: BTreeMap::new(),
            events: BinaryHeap::new(),
            scheduled: 0,
        }
    }

    /// The time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// A generator of the network's seed, for what a test wants to be random.
    pub fn fork_rng(&mut self) -> Rng {
        self.rng.fork()
    }

    /// Adds a node; it is asked for its first timeout and datagrams when the network runs.
    pub fn add(&mut self, node: impl Node) -> NodeId {
        let id = NodeId(self.nodes.len());
        self.nodes.push(Slot { node: Some(Box::new(node)), timer: None, calls: (self.now, 0) });
        let number = self.schedule(self.now, |number| Event::Timer { node: id, number });
        self.nodes[id.0].timer = Some((self.now, number));
        id
    }

    /// Adds a link in one direction.
    pub fn add_link(&mut self, config: LinkConfig) -> LinkId {
        let rng = self.rng.fork();
        self.links.push(Link::new(config, rng));
        LinkId(self.links.len() - 1)
    }

    /// Datagrams from `from` to `to` take these links, one after the other; none: they arrive at once.
    pub fn route(&mut self, from: NodeId, to: NodeId, links: &[LinkId]) {
        self.routes.insert((from, to), links.into());
    }

    /// Opens a control pipe between two nodes, each direction with `delay`.
    pub fn pipe(&mut self, a: NodeId, b: NodeId, delay: Duration) {
        self.pipes.insert((a, b), Pipe::new(delay));
        self.pipes.insert((b, a), Pipe::new(delay));
    }

    /// Nothing comes out of the pipe from `from` to `to` during `period`.
    pub fn stall_pipe(&mut self, from: NodeId, to: NodeId, period: Range<Time>) {
        self.open_pipe(from, to).stall(period);
    }

    /// Cuts the control pipe between two nodes; both hear of it once what is under way has come out.
    pub fn cut_pipe(&mut self, a: NodeId, b: NodeId) {
        self.close_pipe(a, b);
        self.close_pipe(b, a);
    }

    /// A node, as what it is.
    ///
    /// # Panics
    /// If it is something else, or has vanished.
    pub fn node<T: Node>(&self, id: NodeId) -> &T {
        let node: &dyn Any = self.nodes[id.0].node.as_deref().expect("a node that has not vanished");
        node.downcast_ref().expect("a node of this type")
    }

    /// Does something with a node, and then what the node wants done.
    ///
    /// # Panics
    /// As [`Self::node`] does.
    pub fn visit<T: Node, R>(&mut self, id: NodeId, visit: impl FnOnce(&mut T, Time) -> R) -> R {
        let now = self.now;
        let node: &mut dyn Any = self.nodes[id.0].node.as_deref_mut().expect("a node that has not vanished");
        let result = visit(node.downcast_mut().expect("a node of this type"), now);
        self.settle(id);
        result
    }

    /// A node is no more: it hears and says nothing, and nobody is told. Its control pipes stay open and
    /// silent.
    pub fn vanish(&mut self, id: NodeId) {
        self.nodes[id.0].node = None;
    }

    /// A link.
    pub fn link(&self, id: LinkId) -> &Link {
        &self.links[id.0]
    }

    /// A link, to change its configuration and faults.
    pub fn link_mut(&mut self, id: LinkId) -> &mut Link {
        &mut self.links[id.0]
    }

    /// What went from one node to another so far.
    pub fn flow(&self, from: NodeId, to: NodeId) -> FlowCounters {
        self.flows.get(&(from, to)).cloned().unwrap_or_default()
    }

    /// Counts what is delivered in slices of time, from now on.
    pub fn count_slices(&mut self, slice: Duration) {
        self.slice = Some(slice);
    }

    /// Records the length of a link's queue at regular times.
    pub fn trace_queue(&mut self, link: LinkId, every: Duration) {
        let every = every.max(Duration::from_nanos(1));
        self.traces.insert(link, Trace { every, samples: Vec::new() });
        self.schedule(self.now, |_| Event::Sample(link));
    }

    /// The lengths of a link's queue in bytes, by time.
    pub fn queue_trace(&self, link: LinkId) -> &[(Time, u64)] {
        self.traces.get(&link).map_or(&[], |trace| &trace.samples)
    }

    /// Lets time go on for `duration`.
    pub fn run_for(&mut self, duration: Duration) {
        self.run_until(self.now + duration, |_| false);
    }

    /// Lets time go on until `done`, which is asked after every event, or until `deadline`. True if it was
    /// done.
    pub fn run_until(&mut self, deadline: Time, mut done: impl FnMut(&Network) -> bool) -> bool {
        if done(self) {
            return true;
        }
        while let Some(Reverse(next)) = self.events.peek() {
            if next.at > deadline {
                break;
            }
            let Some(Reverse(Scheduled { at, event, .. })) = self.events.pop() else { break };
            self.now = at;
            self.happen(event);
            if done(self) {
                return true;
            }
        }
        self.now = deadline.max(self.now);
        false
    }

    fn happen(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Timer { node, number } => {
                let slot = &mut self.nodes[node.0];
                if slot.timer.is_some_and(|(_, counts)| counts == number) {
                    slot.timer = None;
                    self.tell(node, |node| {
                        if node.poll_timeout().is_some_and(|at| at <= now) {
                            node.handle_timeout(now);
                        }
                    });
                }
            }
            Event::Sent(link) => {
                let (hop, arrival, next) = self.links[link.0].sent(now);
                self.schedule(arrival, |_| Event::Arrival(hop));
                if let Some(at) = next {
                    self.schedule(at, |_| Event::Sent(link));
                }
            }
            Event::Arrival(hop) => self.forward(hop),
            Event::Control { from, to, message } => {
                self.tell(to, |node| node.handle_control(now, from, message))
            }
            Event::ControlClosed { from, to } => self.tell(to, |node| node.handle_control_closed(now, from)),
            Event::Sample(link) => {
                let queued = self.links[link.0].queued_bytes();
                if let Some(trace) = self.traces.get_mut(&link) {
                    trace.samples.push((now, queued));
                    let next = now + trace.every;
                    self.schedule(next, |_| Event::Sample(link));
                }
            }
        }
    }

    /// A datagram goes on to its next link, or has come to the end of its route.
    fn forward(&mut self, mut hop: Hop) {
        let (from, to) = (hop.datagram.from, hop.datagram.to);
        let route =
            self.routes.get(&(from, to)).unwrap_or_else(|| panic!("no route from {from:?} to {to:?}"));
        let Some(&link) = route.get(hop.route_position) else { return self.deliver(hop.datagram) };
        hop.route_position += 1;
        let offered = self.links[link.0].offer(self.now, hop);
        for flow in offered.gone {
            self.flows.entry(flow).or_default().lost += 1;
        }
        if let Some(at) = offered.sent_at {
            self.schedule(at, |_| Event::Sent(link));
        }
    }

    fn deliver(&mut self, datagram: Datagram) {
        let now = self.now;
        let to = datagram.to;
        let flow = self.flows.entry((datagram.from, to)).or_default();
        if self.nodes[to.0].node.is_none() {
            flow.unheard += 1;
            return;
        }
        flow.deliver(now, datagram.wire_bytes, self.slice);
        self.tell(to, |node| node.handle(now, datagram));
    }

    /// Tells a node something, unless it has vanished, and does what it then wants done.
    fn tell(&mut self, id: NodeId, tell: impl FnOnce(&mut dyn Node)) {
        if let Some(node) = &mut self.nodes[id.0].node {
            tell(node.as_mut());
            self.settle(id);
        }
    }

    /// Does what a node wants done, and sets its timer.
    fn settle(&mut self, id: NodeId) {
        let now = self.now;
        while let Some(output) = self.nodes[id.0].node.as_mut().and_then(|node| node.poll_transmit(now)) {
            self.count_call(id);
            match output {
                Output::Datagram(datagram) => {
                    self.flows.entry((id, datagram.to)).or_default().sent += 1;
                    self.forward(Hop { datagram: Datagram { from: id, ..datagram }, route_position: 0 });
                }
                Output::Control { to, message } => {
                    if let Some(at) = self.pipe_delivery(id, to) {
                        self.schedule(at, |_| Event::Control { from: id, to, message });
                    }
                }
                Output::CloseControl { to } => self.close_pipe(id, to),
            }
        }
        self.count_call(id);
        let wanted = self.nodes[id.0].node.as_ref().and_then(|node| node.poll_timeout());
        if wanted != self.nodes[id.0].timer.map(|(at, _)| at) {
            self.nodes[id.0].timer =
                wanted.map(|at| (at, self.schedule(at.max(now), |number| Event::Timer { node: id, number })));
        }
    }

    /// When a message comes out of a pipe that goes in now; none if it has been closed.
    fn pipe_delivery(&mut self, from: NodeId, to: NodeId) -> Option<Time> {
        let now = self.now;
        let pipe = self.open_pipe(from, to);
        pipe.open.then(|| pipe.deliver_at(now))
    }

    fn close_pipe(&mut self, from: NodeId, to: NodeId) {
        if let Some(at) = self.pipe_delivery(from, to) {
            self.open_pipe(from, to).open = false;
            self.schedule(at, |_| Event::ControlClosed { from, to });
        }
    }

    fn open_pipe(&mut self, from: NodeId, to: NodeId) -> &mut Pipe {
        self.pipes.get_mut(&(from, to)).unwrap_or_else(|| panic!("no control pipe from {from:?} to {to:?}"))
    }

    fn count_call(&mut self, id: NodeId) {
        let slot = &mut self.nodes[id.0];
        slot.calls = (self.now, if slot.calls.0 == self.now { slot.calls.1 + 1 } else { 1 });
        assert!(slot.calls.1 < RESTLESS, "{id:?} never comes to rest at {:?}", self.now);
    }

    fn schedule(&mut self, at: Time, event: impl FnOnce(u64) -> Event) -> u64 {
        self.scheduled += 1;
        let number = self.scheduled;
        self.events.push(Reverse(Scheduled { at, number, event: event(number) }));
        number
    }
}
