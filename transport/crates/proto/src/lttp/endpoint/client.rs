//! The fetching end of connections to all servers of a fetch.

use std::io;

use wire::control;

use super::super::{Client, ClientConfig, ClientEvent, ServerId};
use crate::Time;
use crate::channel::{Broken, Channel, Security};
use crate::ecn::Codepoint;
use crate::object::Arrival;
use crate::protect::{LTTP_LABEL, Side};

/// A client and its connections to servers, each from its first byte on.
pub struct ClientEndpoint {
    client: Client,
    /// By server.
    channels: Vec<Channel>,
}

impl ClientEndpoint {
    /// A client without servers.
    pub fn new(config: ClientConfig) -> Self {
        ClientEndpoint { client: Client::new(config), channels: Vec::new() }
    }

    /// Begins to connect to a server; [`ClientEvent::Ready`] tells that it is there, [`ClientEvent::Lost`] that it is not.
    /// Servers are numbered in the order in which they are added.
    pub fn connect(&mut self, now: Time, security: Security) -> ServerId {
        let server = self.client.add_server(now);
        self.channels.push(Channel::new(security));
        self.open(now, server);
        server
    }

    /// What is fetched.
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// The same to look at.
    pub fn data(&self) -> &Client {
        &self.client
    }

    /// Bytes of a server's stream have come.
    pub fn receive(&mut self, now: Time, server: ServerId, bytes: &[u8]) {
        if self.client.is_gone(server) {
            return;
        }
        // What was said before the end may tell why.
        let broken = self.channels[server.0].receive(bytes).err();
        self.open(now, server);
        let said = self.listen(now, server).err();
        if let Some(broken) = said.or(broken) {
            self.client.disconnected(server, broken.to_string());
        }
    }

    /// Messages can pass, from now on: the first is due.
    fn open(&mut self, now: Time, server: ServerId) {
        let channel = &self.channels[server.0];
        if self.client.is_opening(server) && channel.is_open() {
            match channel.protection(LTTP_LABEL, Side::Client) {
                Ok(protection) => self.client.opened(now, server, protection),
                Err(broken) => self.client.disconnected(server, broken.to_string()),
            }
        }
    }

    fn listen(&mut self, now: Time, server: ServerId) -> Result<(), Broken> {
        while !self.client.is_opening(server)
            && !self.client.is_gone(server)
            && let Some(message) = self.channels[server.0].message::<control::Server>()?
        {
            self.client.handle_control(now, server, message);
        }
        Ok(())
    }

    /// Nothing more comes by a server's stream, or goes: it has ended, or it failed, or could not be connected.
    pub fn stream_ended(&mut self, server: ServerId, error: Option<io::Error>) {
        if let Some(channel) = self.channels.get(server.0) {
            self.client.disconnected(server, channel.ended(error).to_string());
        }
    }

    /// Has the control channels carry what there is to say.
    pub fn speak(&mut self, now: Time) {
        while let Some((server, message)) = self.client.poll_control(now) {
            if let Err(broken) = self.channels[server.0].send(&message) {
                self.client.disconnected(server, broken.to_string());
            }
        }
    }

    /// The control channel to a server: for what its stream is to take.
    ///
    /// # Panics
    /// If there is no such server.
    pub fn channel_mut(&mut self, server: ServerId) -> &mut Channel {
        &mut self.channels[server.0]
    }

    /// A datagram from a server's data address, with what its IP header bore of ECN (RFC 3168).
    /// Returns the symbol if it is of use.
    pub fn handle_datagram<'a>(
        &'a mut self,
        now: Time,
        server: ServerId,
        ecn: Codepoint,
        datagram: &'a mut [u8],
    ) -> Option<Arrival<'a>> {
        self.client.handle_datagram(now, server, ecn, datagram)
    }

    /// The next thing that has happened.
    pub fn poll_event(&mut self) -> Option<ClientEvent> {
        self.client.poll_event()
    }

    /// The next datagram, appended to `out`, and the server whose data address it is for.
    pub fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> Option<ServerId> {
        self.client.poll_transmit(now, out)
    }

    /// When [`ClientEndpoint::handle_timeout`] or [`ClientEndpoint::poll_transmit`] has something to do without any input.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.client.poll_timeout()
    }

    /// Lets timers expire.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.client.poll_timeout().is_some_and(|at| at <= now) {
            self.client.handle_timeout(now);
        }
    }

    /// Says to a server that nothing follows.
    pub fn close(&mut self, server: ServerId) {
        self.client.disconnected(server, "closed here".into());
        if let Some(channel) = self.channels.get_mut(server.0) {
            channel.close();
        }
    }
}
