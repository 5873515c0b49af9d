//! The serving end of one client's connection.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use wire::control;
use wire::packet::Token;

use super::super::{Server, ServerConfig, ServerEvent, Transmit};
use crate::Time;
use crate::channel::{Broken, Channel, Security};
use crate::protect::{LTTP_LABEL, Side};

/// One client's connection, from its first byte on.
pub struct ServerEndpoint {
    channel: Channel,
    server: Server,
    has_keys: bool,
    since: Time,
    /// A client that has not said hello by then is let go.
    opening: Duration,
}

impl ServerEndpoint {
    /// A client at `client` has connected. `connection`, which no other client of this address has, and `token`, which is
    /// random, name the connection on the data channel.
    pub fn accept(
        config: ServerConfig,
        now: Time,
        security: Security,
        client: IpAddr,
        connection: u32,
        token: Token,
    ) -> Self {
        let opening = config.opening;
        let channel = Channel::of_a_stranger(security);
        let server = Server::new(config, now, connection, token, client);
        ServerEndpoint { channel, server, has_keys: false, since: now, opening }
    }

    /// What is served: to answer what [`ServerEndpoint::poll_event`] asks for.
    pub fn server(&mut self) -> &mut Server {
        &mut self.server
    }

    /// The same to look at.
    pub fn data(&self) -> &Server {
        &self.server
    }

    /// Bytes of the stream have come.
    pub fn receive(&mut self, now: Time, bytes: &[u8]) {
        if self.server.has_ended() {
            return;
        }
        // What was said before the end counts.
        let broken = self.channel.receive(bytes).err();
        let said = self.listen(now).err();
        if let Some(broken) = said.or(broken) {
            self.server.disconnected(broken.to_string());
        }
    }

    fn listen(&mut self, now: Time) -> Result<(), Broken> {
        if !self.has_keys && self.channel.is_open() {
            self.has_keys = true;
            self.server.opened(self.channel.protection(LTTP_LABEL, Side::Server)?);
        }
        while self.has_keys
            && let Some(message) = self.channel.message::<control::Client>()?
        {
            self.server.handle_control(now, message);
        }
        Ok(())
    }

    /// Nothing more comes by the stream, or goes: it has ended, or it failed.
    pub fn stream_ended(&mut self, error: Option<io::Error>) {
        self.server.disconnected(self.channel.ended(error).to_string());
    }

    /// Has the control channel carry what there is to say.
    pub fn speak(&mut self) {
        while let Some(message) = self.server.poll_control() {
            if let Err(broken) = self.channel.send(&message) {
                return self.server.disconnected(broken.to_string());
            }
        }
    }

    /// The control channel, and what it holds.
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// The same, for what its stream is to take.
    pub fn channel_mut(&mut self) -> &mut Channel {
        &mut self.channel
    }

    /// A datagram that named this connection. Whether it is authentic, and was taken.
    pub fn handle_datagram(&mut self, now: Time, from: SocketAddr, datagram: &mut [u8]) -> bool {
        self.server.handle_datagram(now, from, datagram)
    }

    /// The next thing to do.
    pub fn poll_event(&mut self) -> Option<ServerEvent> {
        self.server.poll_event()
    }

    /// The next burst: datagrams of one size, appended to `buffer`, at most `max_datagrams` of them.
    pub fn poll_transmit(
        &mut self,
        now: Time,
        buffer: &mut Vec<u8>,
        max_datagrams: usize,
    ) -> Option<Transmit> {
        self.server.poll_transmit(now, buffer, max_datagrams)
    }

    /// When [`ServerEndpoint::handle_timeout`] or [`ServerEndpoint::poll_transmit`] has something to do, or
    /// [`ServerEndpoint::poll_event`] something to tell, without any input.
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.server.has_events() {
            return Some(Time::ZERO);
        }
        self.lets_go_at().into_iter().chain(self.server.poll_timeout()).min()
    }

    fn lets_go_at(&self) -> Option<Time> {
        (!self.server.is_greeted() && !self.server.has_ended()).then(|| self.since + self.opening)
    }

    /// Lets timers expire.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.lets_go_at().is_some_and(|at| at <= now) {
            return self
                .server
                .disconnected(format!("no hello came within {} s", self.opening.as_secs_f64()));
        }
        if self.server.poll_timeout().is_some_and(|at| at <= now) {
            self.server.handle_timeout(now);
        }
    }

    /// Says goodbye, and that nothing follows. Requests that are open end: [`ServerEndpoint::poll_event`] tells which.
    pub fn close(&mut self, reason: &str) {
        self.server.end(reason.to_owned());
        self.speak();
        self.channel.close();
    }
}
