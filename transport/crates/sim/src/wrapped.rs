//! A node with something between it and the network, as a shim between TCP and IP.

use std::any::Any;
use std::collections::VecDeque;

use crate::{Datagram, Node, NodeId, Output, Time};

/// Reads, changes, keeps back and adds to what a node sends and hears.
pub trait Shim: Any {
    /// The node sends a datagram; its `from` is not filled in yet.
    fn outgoing(&mut self, _now: Time, datagram: Datagram, passed: &mut Passed) {
        passed.down(datagram);
    }

    /// A datagram has come for the node.
    fn incoming(&mut self, _now: Time, datagram: Datagram, passed: &mut Passed) {
        passed.up(datagram);
    }

    /// The time that [`Shim::poll_timeout`] asked for has come.
    fn handle_timeout(&mut self, _now: Time, _passed: &mut Passed) {}

    /// When to be called again, at the latest. After that call it must be another time.
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
}

/// What a shim passes on.
#[derive(Debug, Default)]
pub struct Passed {
    down: VecDeque<Datagram>,
    up: VecDeque<Datagram>,
}

impl Passed {
    /// To the network.
    pub fn down(&mut self, datagram: Datagram) {
        self.down.push_back(datagram);
    }

    /// To the node.
    pub fn up(&mut self, datagram: Datagram) {
        self.up.push_back(datagram);
    }
}

/// A node within its shim. What it says over control pipes passes by the shim.
pub struct Wrapped<N, S> {
    /// The node.
    pub node: N,
    /// What is between it and the network.
    pub shim: S,
    passed: Passed,
}

impl<N: Node, S: Shim> Wrapped<N, S> {
    /// Wraps a node.
    pub fn new(node: N, shim: S) -> Self {
        Wrapped { node, shim, passed: Passed::default() }
    }

    fn rise(&mut self, now: Time) {
        while let Some(datagram) = self.passed.up.pop_front() {
            self.node.handle(now, datagram);
        }
    }
}

impl<N: Node, S: Shim> Node for Wrapped<N, S> {
    fn handle(&mut self, now: Time, datagram: Datagram) {
        self.shim.incoming(now, datagram, &mut self.passed);
        self.rise(now);
    }

    fn handle_control(&mut self, now: Time, from: NodeId, message: Vec<u8>) {
        self.node.handle_control(now, from, message);
    }

    fn handle_control_closed(&mut self, now: Time, from: NodeId) {
        self.node.handle_control_closed(now, from);
    }

    fn handle_timeout(&mut self, now: Time) {
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        if is_due(self.shim.poll_timeout()) {
            self.shim.handle_timeout(now, &mut self.passed);
            self.rise(now);
        }
        if is_due(self.node.poll_timeout()) {
            self.node.handle_timeout(now);
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        [self.shim.poll_timeout(), self.node.poll_timeout()].into_iter().flatten().min()
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Output> {
        loop {
            if let Some(datagram) = self.passed.down.pop_front() {
                return Some(Output::Datagram(datagram));
            }
            match self.node.poll_transmit(now)? {
                Output::Datagram(datagram) => {
                    self.shim.outgoing(now, datagram, &mut self.passed);
                    self.rise(now);
                }
                control => return Some(control),
            }
        }
    }
}
