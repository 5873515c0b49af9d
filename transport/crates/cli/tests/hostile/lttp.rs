//! Clients of LTTP that keep to the protocol only as far as it serves them.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;

use proto::protect::{LTTP_LABEL, Protection, SECRET_BYTES, Side};
use rustix::net::{self, AddressFamily, SocketType};
use udp::rustls::pki_types::ServerName;
use udp::rustls::{ClientConfig, ClientConnection};
use wire::control::{Client, Code, Fetch, Frames, Pacing, Run, Server, emit};
use wire::packet::{Credit, Feedback, Header, Kind, MAX_CREDITS, Token};

const BLOCK_SYMBOLS: u16 = 64;

/// What one does, over and over again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Worst {
    /// Connects, and says nothing.
    Silent,
    /// Sends a hello of TLS that never ends.
    EndlessHandshake,
    /// Has shaken hands, and says no hello.
    NoHello,
    /// Asks for the same file over and over again, in a thousand pieces each time, and takes nothing.
    Requests,
    /// Has blocks of many requests loaded at once, and completes none.
    HoldsBlocks,
    /// Says of every second block that it is complete.
    Scatters,
    /// Has directories listed, and reads nothing of it.
    ReadsNothing,
    /// Begins a long message, and goes on with it byte by byte.
    SlowMessage,
}

pub const ALL: [Worst; 8] = [
    Worst::Requests,
    Worst::HoldsBlocks,
    Worst::Scatters,
    Worst::ReadsNothing,
    Worst::SlowMessage,
    Worst::NoHello,
    Worst::EndlessHandshake,
    Worst::Silent,
];

pub struct Peer {
    worst: Worst,
    to: SocketAddr,
    stream: TcpStream,
    data: UdpSocket,
    tls: ClientConnection,
    frames: Frames,
    named: Option<(u32, Token)>,
    protection: Option<Protection>,
    number: u64,
    turns: u64,
}

impl Peer {
    /// None: it was not let in.
    pub fn new(worst: Worst, from: IpAddr, to: SocketAddr, tls: &Arc<ClientConfig>) -> Option<Self> {
        let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        net::bind(&socket, &SocketAddr::new(from, 0)).unwrap();
        net::connect(&socket, &to).ok()?;
        let stream = TcpStream::from(socket);
        stream.set_nonblocking(true).unwrap();
        let data = UdpSocket::bind((from, 0)).unwrap();
        data.set_nonblocking(true).unwrap();
        let mut tls = ClientConnection::new(tls.clone(), ServerName::try_from("localhost").unwrap()).unwrap();
        tls.set_buffer_limit(None);
        let (frames, named, protection) = (Frames::default(), None, None);
        let mut peer = Peer { worst, to, stream, data, tls, frames, named, protection, number: 0, turns: 0 };
        if worst == Worst::EndlessHandshake {
            let mut hello = vec![0x16, 3, 1, 0x40, 0, 1, 0, 0xff, 0];
            hello.resize(5 + 16_384, 0);
            for _ in 0..3 {
                // What does not go now would be no worse later.
                let _ = peer.stream.write(&hello);
                hello[5] = 0;
            }
        }
        Some(peer)
    }

    /// Moves what can be moved, and does some more of the worst. False: the server has ended it.
    pub fn turn(&mut self) -> bool {
        let mut datagram = [0; 2048];
        while self.data.recv(&mut datagram).is_ok() {}
        if matches!(self.worst, Worst::Silent | Worst::EndlessHandshake) {
            return true;
        }
        let deaf = self.worst == Worst::ReadsNothing && self.named.is_some();
        // One that is deaf leaves what comes where it is.
        while let Some(read) = (!deaf).then(|| self.tls.read_tls(&mut self.stream)) {
            match read {
                Ok(0) => return false,
                Ok(_) => {
                    if self.tls.process_new_packets().is_err() {
                        return false;
                    }
                    let mut plain = Vec::new();
                    let _ = self.tls.reader().read_to_end(&mut plain);
                    self.frames.extend(&plain);
                }
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(_) => return false,
            }
        }
        if !self.tls.is_handshaking() {
            while let Ok(Some(message)) = self.frames.message::<Server>() {
                if let Server::Welcome { connection, token, .. } = message {
                    self.named = Some((connection, token));
                }
            }
            self.misbehave();
        }
        while self.tls.wants_write() && self.tls.write_tls(&mut self.stream).is_ok() {}
        true
    }

    fn say(&mut self, message: &Client) {
        let mut bytes = Vec::new();
        emit(message, &mut bytes).unwrap();
        self.tls.writer().write_all(&bytes).unwrap();
    }

    fn fetch(&mut self, request: u16, pieces: u32) {
        let runs = (0..pieces).map(|n| Run { first: 2 * n, count: 1 }).collect();
        self.say(&Client::Fetch(Fetch {
            request,
            path: "large".into(),
            symbol_bytes: 1_200,
            block_symbols: if self.worst == Worst::HoldsBlocks { BLOCK_SYMBOLS } else { 1 },
            code: Code::Dealt,
            pacing: if request.is_multiple_of(2) { Pacing::Client { first: 1 } } else { Pacing::Tfrc },
            runs,
            version: None,
        }));
    }

    fn send(&mut self, kind: Kind, body: impl FnOnce(&mut Vec<u8>)) {
        let Some((connection, _)) = self.named else { return };
        let tls = &self.tls;
        let protection = self.protection.get_or_insert_with(|| {
            let secret = tls.export_keying_material([0; SECRET_BYTES], LTTP_LABEL, None).unwrap();
            Protection::new(&secret, Side::Client)
        });
        let (mut datagram, number) = (Vec::new(), self.number);
        self.number += 1;
        Header { kind, connection, number }.emit(&mut datagram);
        body(&mut datagram);
        protection.seal(number, &mut datagram, 0);
        let _ = self.data.send_to(&datagram, self.to);
    }

    fn misbehave(&mut self) {
        if self.turns == 0 && self.worst != Worst::NoHello {
            self.say(&Client::Hello { version: wire::VERSION });
        }
        self.turns += 1;
        let Some((_, token)) = self.named.filter(|_| self.turns > 1) else { return };
        let turn = self.turns as u32;
        let hello = |out: &mut Vec<u8>| {
            out.extend_from_slice(&token);
            out.resize(1_400, 0);
        };
        match self.worst {
            Worst::Requests if turn.is_multiple_of(4) => {
                self.send(Kind::Hello, hello);
                for request in 0..300 {
                    self.say(&Client::Cancel { request });
                    self.fetch(request, 1_000);
                }
            }
            Worst::HoldsBlocks => {
                self.send(Kind::Hello, hello);
                (0..64).filter(|_| turn % 16 == 2).for_each(|request| self.fetch(request, 0));
                let credit = |n: u32| Credit { request: (turn % 64) as u16, block: n, want: 1 };
                let credits = (0..MAX_CREDITS as u32).map(credit).collect();
                let feedback = Feedback { credits, ..Feedback::default() };
                self.send(Kind::Feedback, |out| feedback.emit(out));
            }
            Worst::Scatters => {
                (0..256).filter(|_| turn % 16 == 2).for_each(|request| self.fetch(request, 0));
                for request in 0..256 {
                    self.say(&Client::Done { request, block: 2 * turn });
                }
            }
            Worst::ReadsNothing => {
                for request in 0..20 {
                    self.say(&Client::List { request, path: String::new() });
                    self.say(&Client::Fetch(Fetch {
                        request,
                        path: "nothing/".repeat(500),
                        symbol_bytes: 0,
                        block_symbols: 0,
                        code: Code::Dealt,
                        pacing: Pacing::Tfrc,
                        runs: Vec::new(),
                        version: None,
                    }));
                }
            }
            Worst::SlowMessage if turn == 2 => {
                self.tls.writer().write_all(&65_500_u32.to_be_bytes()).unwrap();
                self.tls.writer().write_all(&[0; 60_000]).unwrap();
            }
            Worst::SlowMessage => self.tls.writer().write_all(&[0]).unwrap(),
            _ => {}
        }
    }
}
