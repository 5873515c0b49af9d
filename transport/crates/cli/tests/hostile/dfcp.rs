//! Senders of DFCP that keep to the protocol only as far as it serves them.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Instant;

use proto::Time;
use proto::dfcp::Signalling;
use proto::protect::{DFCP_LABEL, DFCP_SIGNAL_LABEL, Protection, SECRET_BYTES, Side};
use udp::rustls::pki_types::ServerName;
use udp::rustls::{ClientConfig, ClientConnection};
use wire::control::{Code, Offer, Parameters, Sender, Version, emit};
use wire::packet::{Header, Kind, Symbol};

const SYMBOL_BYTES: u16 = 1_200;
const BLOCK_SYMBOLS: u16 = 256;
/// Room on the disk is reserved for what is offered.
const BLOCKS: u32 = 12;
const OBJECT_BYTES: u64 = SYMBOL_BYTES as u64 * BLOCK_SYMBOLS as u64 * BLOCKS as u64;

/// What one does, over and over again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Worst {
    /// Shows where it is, and says nothing more.
    HalfOpen,
    /// Sends a hello of TLS that never ends.
    EndlessHandshake,
    /// Has shaken hands, and says no hello.
    NoHello,
    /// Offers a thousand objects with long names, and sends nothing of them.
    Offers,
    /// Sends one symbol of every block, of many objects.
    Scatters,
    /// Sends nearly enough of each block.
    NeverCompletes,
    /// Asks for what is refused, and reads none of it.
    ReadsNothing,
    /// Begins a long message, and goes on with it byte by byte.
    SlowMessage,
}

pub const ALL: [Worst; 8] = [
    Worst::Offers,
    Worst::Scatters,
    Worst::NeverCompletes,
    Worst::ReadsNothing,
    Worst::SlowMessage,
    Worst::NoHello,
    Worst::EndlessHandshake,
    Worst::HalfOpen,
];

pub struct Peer {
    worst: Worst,
    socket: UdpSocket,
    connection: u32,
    begun: Instant,
    signalling: Signalling,
    tls: ClientConnection,
    protection: Option<Protection>,
    number: u64,
    turns: u64,
    /// Symbols that are to come: request, block, index.
    next: (u16, u32, u16),
}

impl Peer {
    pub fn new(worst: Worst, from: IpAddr, to: SocketAddr, tls: &Arc<ClientConfig>, connection: u32) -> Self {
        let socket = UdpSocket::bind((from, 0)).unwrap();
        socket.connect(to).unwrap();
        socket.set_nonblocking(true).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut tls = ClientConnection::new(tls.clone(), name).unwrap();
        tls.set_buffer_limit(None);
        let (begun, signalling) = (Instant::now(), Signalling::initiate(Time::ZERO, connection));
        let next = (0, 0, 0);
        let mut peer = Peer {
            worst,
            socket,
            connection,
            begun,
            signalling,
            tls,
            protection: None,
            number: 0,
            turns: 0,
            next,
        };
        match worst {
            Worst::HalfOpen => peer.signalling.write(&[0x16]),
            Worst::EndlessHandshake => {
                for n in 0..4 {
                    let mut record = vec![0; 16_384];
                    if n == 0 {
                        // A ClientHello of 65,280 bytes.
                        record[..4].copy_from_slice(&[1, 0, 0xff, 0]);
                    }
                    peer.signalling.write(&[0x16, 3, 1, 0x40, 0]);
                    peer.signalling.write(&record[..if n == 3 { 16_000 } else { 16_384 }]);
                }
            }
            _ => {}
        }
        peer
    }

    fn speaks(&self) -> bool {
        !matches!(self.worst, Worst::HalfOpen | Worst::EndlessHandshake)
    }

    /// Moves what can be moved, and does some more of the worst.
    pub fn turn(&mut self) {
        let now = Time::ZERO + self.begun.elapsed();
        let deaf = self.worst == Worst::ReadsNothing && self.turns > 1;
        let mut datagram = [0; 2048];
        while let Ok(bytes) = self.socket.recv(&mut datagram) {
            let datagram = &mut datagram[..bytes];
            if let (Ok(header), false) = (Header::parse(datagram), deaf)
                && header.kind == Kind::Signal
            {
                self.signalling.handle_datagram(now, &header, datagram);
            }
        }
        if self.speaks() {
            let came = self.signalling.take();
            let mut came = &came[..];
            while !came.is_empty() && self.tls.read_tls(&mut came).is_ok() {
                if self.tls.process_new_packets().is_err() {
                    break;
                }
                let _ = self.tls.reader().read_to_end(&mut Vec::new());
            }
            if !self.tls.is_handshaking() {
                self.misbehave();
            }
            let mut out = Vec::new();
            while self.tls.wants_write() && self.tls.write_tls(&mut out).is_ok() {}
            self.signalling.write(&out);
            if !self.tls.is_handshaking() && self.protection.is_none() {
                self.protection = Some(self.keys(DFCP_LABEL));
                let of_signals = self.keys(DFCP_SIGNAL_LABEL);
                self.signalling.protect(of_signals, Side::Client);
            }
        }
        let mut out = Vec::new();
        for _ in 0..32 {
            if !self.signalling.poll_transmit(now, &mut out) {
                break;
            }
            let _ = self.socket.send(&out);
            out.clear();
        }
    }

    fn keys(&self, label: &[u8]) -> Protection {
        Protection::new(
            &self.tls.export_keying_material([0; SECRET_BYTES], label, None).unwrap(),
            Side::Client,
        )
    }

    fn say(&mut self, message: &Sender) {
        let mut bytes = Vec::new();
        emit(message, &mut bytes).unwrap();
        self.tls.writer().write_all(&bytes).unwrap();
    }

    fn offer(&mut self, request: u16, size: u64, name: usize) {
        let parameters = Parameters {
            request,
            size,
            version: Version([7; 16]),
            modified_ns: 0,
            mode: 0o644,
            seed: self.connection.into(),
            last_seed: 0,
        };
        let own = format!("{:x}/{request}/", self.connection);
        // Names of 200 bytes are what file systems take.
        let path = own + &format!("{}/", "n".repeat(200)).repeat(name) + "file";
        let (symbol_bytes, block_symbols, code) = (SYMBOL_BYTES, BLOCK_SYMBOLS, Code::Raptor);
        self.say(&Sender::Offer(Offer { path, parameters, symbol_bytes, block_symbols, code }));
    }

    fn symbols(&mut self, count: usize) {
        for _ in 0..count {
            let (request, block, index) = self.next;
            self.next = match self.worst {
                Worst::Scatters if block < BLOCKS - 1 => (request, block + 1, index),
                Worst::Scatters => ((request + 1) % 4, 0, index + u16::from(request == 3)),
                _ if index < BLOCK_SYMBOLS - 2 => (request, block, index + 1),
                _ => (request, block + 1, 0),
            };
            let Some(protection) = &mut self.protection else { return };
            let (mut datagram, number) = (Vec::new(), self.number);
            self.number += 1;
            Header { kind: Kind::Symbol, connection: self.connection, number }.emit(&mut datagram);
            Symbol { request, block, index, sent_us: 0, rtt_us: 100 }.emit(&mut datagram);
            datagram.resize(datagram.len() + usize::from(SYMBOL_BYTES), 7);
            protection.seal(number, &mut datagram, 0);
            let _ = self.socket.send(&datagram);
        }
    }

    fn misbehave(&mut self) {
        self.turns += 1;
        let first = self.turns == 1;
        if first && self.worst != Worst::NoHello {
            self.say(&Sender::Hello { version: wire::VERSION });
        }
        match self.worst {
            Worst::Offers if first => (0..1_024).for_each(|request| self.offer(request, 1 << 20, 10)),
            Worst::Scatters | Worst::NeverCompletes if first => {
                (0..4).for_each(|request| self.offer(request, OBJECT_BYTES, 0));
            }
            Worst::Scatters | Worst::NeverCompletes if self.turns > 4 => self.symbols(24),
            Worst::ReadsNothing => (0..20).for_each(|_| self.offer(1_000, u64::MAX, 15)),
            Worst::SlowMessage if first => {
                self.tls.writer().write_all(&65_500_u32.to_be_bytes()).unwrap();
                self.tls.writer().write_all(&[0; 60_000]).unwrap();
            }
            Worst::SlowMessage => self.tls.writer().write_all(&[0]).unwrap(),
            _ => {}
        }
    }
}
