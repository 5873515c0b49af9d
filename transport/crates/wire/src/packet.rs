//! Datagrams of the data channel.
//!
//! ```text
//! header, in clear, authenticated        11 bytes   version 4 bits | kind 4 bits | connection 32 | number 48
//! body, encrypted unless insecure
//!   symbol      15 bytes + payload                  request 16 | block 32 | index 16 | sent µs 32 | rtt µs 24
//!   feedback    43 bytes + 8 for each credit        echo µs 32 | delay µs 32 | x_recv 48 | loss 32 | highest 48
//!                                                   received 48 | ect 48 | ce 48 | count 8
//!                                                   request 16 | block 32 | want 16
//!   hello       16 bytes and padding                token 128, zeros
//!   welcome     6 bytes and padding                 number of the hello that it answers 48, zeros
//!   report      43 bytes + 8 for each block         echo µs 32 | delay µs 32 | x_recv 48 | loss 32 | highest 48
//!                                                   received 48 | ect 48 | ce 48 | count 8
//!                                                   request 16 | block 32 | needs 16
//!   piece       17 bytes + payload                  as a symbol's, piece 8 | of 8
//!   probe       2 bytes and padding                 bytes 16, zeros
//! tag, unless insecure                   16 bytes
//!
//! body, always in clear
//!   signal      9 bytes + payload                   flags 8 | offset 32 | acknowledged 32
//! ```
//! Numbers are big-endian. `number` counts the datagrams of one direction of a connection from 0 and is never
//! used twice: it is the nonce, and its gaps are the losses. Signals have numbers of their own: they carry DFCP's
//! control channel, as the bytes of a stream, before there are keys.

use thiserror::Error;

use crate::VERSION;

/// Bytes of the clear header.
pub const HEADER_BYTES: usize = 11;
/// Bytes before the payload in a symbol's body.
pub const SYMBOL_BYTES: usize = 15;
/// Bytes of a feedback's body without its credits.
pub const FEEDBACK_BYTES: usize = 43;
/// Bytes of one credit.
pub const CREDIT_BYTES: usize = 8;
/// Bytes of the authentication tag that follows the body.
pub const TAG_BYTES: usize = 16;
/// Credits that one feedback can carry.
pub const MAX_CREDITS: usize = 64;
/// Bytes before the payload in a piece's body.
pub const PIECE_BYTES: usize = SYMBOL_BYTES + 2;
/// Pieces that a symbol may be cut into.
pub const MAX_PIECES: u8 = 32;
/// Packet numbers stay below this.
pub const MAX_NUMBER: u64 = (1 << 48) - 1;
/// The token that binds a datagram's source to its control channel.
pub type Token = [u8; 16];

/// Bytes of a UDP payload that carries a symbol of `symbol_bytes`.
pub const fn symbol_datagram_bytes(symbol_bytes: usize, protected: bool) -> usize {
    HEADER_BYTES + SYMBOL_BYTES + symbol_bytes + if protected { TAG_BYTES } else { 0 }
}

/// Bytes of a UDP payload that carries a piece with `payload` bytes of a symbol.
pub const fn piece_datagram_bytes(payload: usize, protected: bool) -> usize {
    HEADER_BYTES + PIECE_BYTES + payload + if protected { TAG_BYTES } else { 0 }
}

/// Why a datagram is none of ours.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Malformed {
    /// Shorter than its kind needs.
    #[error("the datagram ends too early")]
    Short,
    /// Another version of the protocol, or another protocol.
    #[error("version {0} of the data channel, not {VERSION}")]
    Version(u8),
    /// A kind that this version does not know.
    #[error("unknown kind of datagram {0}")]
    Kind(u8),
    /// A feedback whose length does not fit its count of credits, or with more than [`MAX_CREDITS`].
    #[error("a feedback with an impossible number of credits")]
    Credits,
    /// The same of a report and its blocks.
    #[error("a report with an impossible number of blocks")]
    Blocks,
    /// A piece that is none of its symbol, or of one that has too many or is whole.
    #[error("an impossible piece of a symbol")]
    Pieces,
    /// A signal with a flag that this version does not know.
    #[error("unknown flag of a signal {0}")]
    Flag(u8),
}

/// What a datagram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Server to client: one coded symbol.
    Symbol = 1,
    /// Client to server: TFRC's report and credits.
    Feedback = 2,
    /// Client to server: proves the address with the token of the control channel.
    Hello = 3,
    /// Server to client: the address is known.
    Welcome = 4,
    /// DFCP, both ways: a piece of the control channel.
    Signal = 5,
    /// DFCP, receiver to sender: what came, and what is needed.
    Report = 6,
    /// Both ways: whether the path carries a datagram as long as this one, and that it does.
    Probe = 7,
    /// As a symbol: a part of one that is longer than the path's datagrams.
    Piece = 8,
    /// ATP, both ways: frames (see [`atp`](crate::atp)).
    Data = 9,
    /// ATP, both ways: a piece of the handshake, in clear.
    Initial = 10,
    /// ATP, both ways: a piece of the handshake, under its keys.
    Handshake = 11,
    /// ATP, client to server: frames, under the keys of 0-RTT.
    Early = 12,
    /// ATP, both ways: there is no connection, and why, in clear.
    Refusal = 13,
    /// ATP, server to client: its hello is to come again with this token, in clear.
    Retry = 14,
}

/// The clear part of every datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What follows.
    pub kind: Kind,
    /// The connection, as the server named it on the control channel.
    pub connection: u32,
    /// The datagram's number within its direction.
    pub number: u64,
}

impl Header {
    /// Appends the header.
    pub fn emit(&self, out: &mut Vec<u8>) {
        debug_assert!(self.number <= MAX_NUMBER);
        out.push(VERSION << 4 | self.kind as u8);
        out.extend_from_slice(&self.connection.to_be_bytes());
        out.extend_from_slice(&self.number.to_be_bytes()[2..]);
    }

    /// The header of `datagram`; its body begins at [`HEADER_BYTES`].
    ///
    /// # Errors
    /// [`Malformed`] when it is too short, of another version or of an unknown kind.
    pub fn parse(datagram: &[u8]) -> Result<Header, Malformed> {
        let header: &[u8; HEADER_BYTES] = datagram.first_chunk().ok_or(Malformed::Short)?;
        if header[0] >> 4 != VERSION {
            return Err(Malformed::Version(header[0] >> 4));
        }
        let kind = match header[0] & 15 {
            1 => Kind::Symbol,
            2 => Kind::Feedback,
            3 => Kind::Hello,
            4 => Kind::Welcome,
            5 => Kind::Signal,
            6 => Kind::Report,
            7 => Kind::Probe,
            8 => Kind::Piece,
            9 => Kind::Data,
            10 => Kind::Initial,
            11 => Kind::Handshake,
            12 => Kind::Early,
            13 => Kind::Refusal,
            14 => Kind::Retry,
            other => return Err(Malformed::Kind(other)),
        };
        Ok(Header { kind, connection: be32(&header[1..5]), number: be48(&header[5..11]) })
    }
}

/// What the data channel's welcome answers: a hello may have been sent more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The number of the hello.
    pub hello: u64,
}

impl Welcome {
    /// Appends the body; padding may follow.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.hello.to_be_bytes()[2..]);
    }

    /// The body of an opened welcome.
    ///
    /// # Errors
    /// [`Malformed::Short`].
    pub fn parse(body: &[u8]) -> Result<Welcome, Malformed> {
        let hello: &[u8; 6] = body.first_chunk().ok_or(Malformed::Short)?;
        Ok(Welcome { hello: be48(hello) })
    }
}

/// What precedes a symbol's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// The request it answers.
    pub request: u16,
    /// The block of the object.
    pub block: u32,
    /// Which of the block's coded symbols: with the stream's seed it gives the row.
    pub index: u16,
    /// The server's clock when it was sent, in microseconds, modulo 2^32: echoed by the feedback.
    pub sent_us: u32,
    /// The server's estimate of the round trip (RFC 5348, section 3.2.1), saturated at 2^24 - 1.
    pub rtt_us: u32,
}

impl Symbol {
    /// Appends the fields; the payload follows.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.request.to_be_bytes());
        out.extend_from_slice(&self.block.to_be_bytes());
        out.extend_from_slice(&self.index.to_be_bytes());
        out.extend_from_slice(&self.sent_us.to_be_bytes());
        out.extend_from_slice(&self.rtt_us.min((1 << 24) - 1).to_be_bytes()[1..]);
    }

    /// The fields and the payload of an opened body.
    ///
    /// # Errors
    /// [`Malformed::Short`].
    pub fn parse(body: &[u8]) -> Result<(Symbol, &[u8]), Malformed> {
        let (head, payload) = body.split_first_chunk::<SYMBOL_BYTES>().ok_or(Malformed::Short)?;
        let symbol = Symbol {
            request: be16(&head[0..2]),
            block: be32(&head[2..6]),
            index: be16(&head[6..8]),
            sent_us: be32(&head[8..12]),
            rtt_us: u32::from(head[12]) << 16 | u32::from(be16(&head[13..15])),
        };
        Ok((symbol, payload))
    }
}

/// What precedes the payload of a piece of a symbol. All pieces of a symbol but the last are of one length; what the last has
/// beyond the symbol's end is zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The symbol.
    pub symbol: Symbol,
    /// Which of its pieces, from 0.
    pub piece: u8,
    /// How many it has: 2 to [`MAX_PIECES`].
    pub of: u8,
}

impl Piece {
    /// Appends the fields; the payload follows.
    pub fn emit(&self, out: &mut Vec<u8>) {
        self.symbol.emit(out);
        out.extend_from_slice(&[self.piece, self.of]);
    }

    /// The fields and the payload of an opened body.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(body: &[u8]) -> Result<(Piece, &[u8]), Malformed> {
        let (symbol, rest) = Symbol::parse(body)?;
        let ([piece, of], payload) = rest.split_first_chunk().ok_or(Malformed::Short)?;
        if !(2..=MAX_PIECES).contains(of) || piece >= of {
            return Err(Malformed::Pieces);
        }
        Ok((Piece { symbol, piece: *piece, of: *of }, payload))
    }
}

/// A datagram by which an end learns whether its path carries so much (RFC 8899), and the answer to it, which is short.
/// Their numbers are not those of the data channel: in DFCP they are the signals', as is what seals them, in LTTP their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The length of the datagram that asks: of the UDP payload.
    pub bytes: u16,
}

impl Probe {
    /// Bytes of the body without padding.
    pub const BYTES: usize = 2;

    /// Appends the body; padding may follow.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes.to_be_bytes());
    }

    /// The body of an opened probe.
    ///
    /// # Errors
    /// [`Malformed::Short`].
    pub fn parse(body: &[u8]) -> Result<Probe, Malformed> {
        let bytes: &[u8; 2] = body.first_chunk().ok_or(Malformed::Short)?;
        Ok(Probe { bytes: be16(bytes) })
    }
}

/// How many symbols of a block a server may have sent in all: `want` is an upper limit of their indices.
/// 0 says that the block is complete, as the terminating signal does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    /// The request.
    pub request: u16,
    /// The block.
    pub block: u32,
    /// Symbols with lower indices may be sent.
    pub want: u16,
}

/// A receiver's report (RFC 5348, section 3.2.2) and its credits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Feedback {
    /// `sent_us` of the last symbol that came.
    pub echo_us: u32,
    /// How long before this report it came, in microseconds.
    pub delay_us: u32,
    /// What arrived since the last report, in bytes a second; `None` if nothing did, and `echo_us` means nothing.
    pub x_recv: Option<u64>,
    /// The loss event rate, from 0 to 1.
    pub loss_event_rate: f64,
    /// The highest number of a datagram that came; 0 as well if none did.
    pub highest: u64,
    /// How many symbols, or pieces of them, came in all.
    pub received: u64,
    /// Those that came with ECT(0) (RFC 3168).
    pub ect: u64,
    /// Those that came marked for congestion, with CE.
    pub ce: u64,
    /// What may be sent.
    pub credits: Vec<Credit>,
}

/// `x_recv` of a report that follows no symbol.
const NOTHING: u64 = MAX_NUMBER;

impl Feedback {
    /// Appends the body. Of more than [`MAX_CREDITS`] credits the first are sent.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let x_recv = self.x_recv.map_or(NOTHING, |x| x.min(NOTHING - 1));
        let credits = &self.credits[..self.credits.len().min(MAX_CREDITS)];
        out.extend_from_slice(&self.echo_us.to_be_bytes());
        out.extend_from_slice(&self.delay_us.to_be_bytes());
        out.extend_from_slice(&x_recv.to_be_bytes()[2..]);
        out.extend_from_slice(&part_of_max(self.loss_event_rate).to_be_bytes());
        for count in [self.highest, self.received, self.ect, self.ce] {
            out.extend_from_slice(&count.to_be_bytes()[2..]);
        }
        out.push(credits.len() as u8);
        for credit in credits {
            out.extend_from_slice(&credit.request.to_be_bytes());
            out.extend_from_slice(&credit.block.to_be_bytes());
            out.extend_from_slice(&credit.want.to_be_bytes());
        }
    }

    /// The feedback of an opened body.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(body: &[u8]) -> Result<Feedback, Malformed> {
        let (head, credits) = body.split_first_chunk::<FEEDBACK_BYTES>().ok_or(Malformed::Short)?;
        let count = usize::from(head[42]);
        if count > MAX_CREDITS || credits.len() != count * CREDIT_BYTES {
            return Err(Malformed::Credits);
        }
        let x_recv = be48(&head[8..14]);
        Ok(Feedback {
            echo_us: be32(&head[0..4]),
            delay_us: be32(&head[4..8]),
            x_recv: (x_recv != NOTHING).then_some(x_recv),
            loss_event_rate: f64::from(be32(&head[14..18])) / f64::from(u32::MAX),
            highest: be48(&head[18..24]),
            received: be48(&head[24..30]),
            ect: be48(&head[30..36]),
            ce: be48(&head[36..42]),
            credits: credits
                .chunks_exact(CREDIT_BYTES)
                .map(|c| Credit { request: be16(&c[0..2]), block: be32(&c[2..6]), want: be16(&c[6..8]) })
                .collect(),
        })
    }
}

/// Bytes of a report's body without its blocks.
pub const REPORT_BYTES: usize = 43;
/// Blocks that one report can speak of.
pub const MAX_NEEDS: usize = 64;

/// What a receiver needs of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// So many symbols beyond those that came: 0 while it tries to decode.
    Symbols(u16),
    /// Nothing: this is the block's acknowledgement.
    Nothing,
}

/// A block, and what is needed of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The request.
    pub request: u16,
    /// The block.
    pub block: u32,
    /// What is needed.
    pub needs: Needs,
}

/// A DFCP receiver's report: TFRC's figures (RFC 5348, section 3.2.2), how many symbols came, and blocks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// `sent_us` of the symbol with the highest number that came.
    pub echo_us: u32,
    /// How long before this report it came, in microseconds.
    pub delay_us: u32,
    /// What arrived since the last report, in bytes a second.
    pub x_recv: u64,
    /// The loss event rate, from 0 to 1.
    pub loss_event_rate: f64,
    /// The highest number of a symbol that came.
    pub highest: u64,
    /// How many symbols came in all.
    pub received: u64,
    /// Those that came with ECT(0) (RFC 3168).
    pub ect: u64,
    /// Those that came marked for congestion, with CE.
    pub ce: u64,
    /// Blocks that symbols have come of lately.
    pub needs: Vec<Need>,
}

/// `needs` of a block of which nothing is needed.
const COMPLETE: u16 = u16::MAX;

impl Report {
    /// Appends the body. Of more than [`MAX_NEEDS`] blocks the first are sent.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let needs = &self.needs[..self.needs.len().min(MAX_NEEDS)];
        out.extend_from_slice(&self.echo_us.to_be_bytes());
        out.extend_from_slice(&self.delay_us.to_be_bytes());
        out.extend_from_slice(&self.x_recv.min(MAX_NUMBER).to_be_bytes()[2..]);
        out.extend_from_slice(&part_of_max(self.loss_event_rate).to_be_bytes());
        out.extend_from_slice(&self.highest.to_be_bytes()[2..]);
        for count in [self.received, self.ect, self.ce] {
            out.extend_from_slice(&count.to_be_bytes()[2..]);
        }
        out.push(needs.len() as u8);
        for need in needs {
            let needs = match need.needs {
                Needs::Symbols(symbols) => symbols.min(COMPLETE - 1),
                Needs::Nothing => COMPLETE,
            };
            out.extend_from_slice(&need.request.to_be_bytes());
            out.extend_from_slice(&need.block.to_be_bytes());
            out.extend_from_slice(&needs.to_be_bytes());
        }
    }

    /// The report of an opened body.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(body: &[u8]) -> Result<Report, Malformed> {
        let (head, needs) = body.split_first_chunk::<REPORT_BYTES>().ok_or(Malformed::Short)?;
        let count = usize::from(head[42]);
        if count > MAX_NEEDS || needs.len() != count * CREDIT_BYTES {
            return Err(Malformed::Blocks);
        }
        let need = |n: &[u8]| Need {
            request: be16(&n[0..2]),
            block: be32(&n[2..6]),
            needs: match be16(&n[6..8]) {
                COMPLETE => Needs::Nothing,
                symbols => Needs::Symbols(symbols),
            },
        };
        Ok(Report {
            echo_us: be32(&head[0..4]),
            delay_us: be32(&head[4..8]),
            x_recv: be48(&head[8..14]),
            loss_event_rate: f64::from(be32(&head[14..18])) / f64::from(u32::MAX),
            highest: be48(&head[18..24]),
            received: be48(&head[24..30]),
            ect: be48(&head[30..36]),
            ce: be48(&head[36..42]),
            needs: needs.chunks_exact(CREDIT_BYTES).map(need).collect(),
        })
    }
}

/// A number from 0 to 1 as a part of 2^32 - 1.
fn part_of_max(part: f64) -> u32 {
    (part.clamp(0.0, 1.0) * f64::from(u32::MAX)) as u32
}

/// Bytes before the payload in a signal's body.
pub const SIGNAL_BYTES: usize = 9;
/// Bytes of a payload that a signal may carry: with everything around it, it passes wherever IPv6 does.
pub const MAX_SIGNAL_PAYLOAD: usize = 1200;
/// What a receiver has its peer repeat before it remembers anything of it.
pub type Cookie = [u8; 16];

/// What a signal is besides a piece of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flag {
    /// Nothing.
    #[default]
    None,
    /// Sender to receiver: opens the connection. The payload begins with zeros in the place of a cookie.
    Open,
    /// Receiver to sender: the payload is the cookie to open the connection with.
    Retry,
    /// Sender to receiver: the payload begins with the cookie that was given.
    Opens,
    /// The stream ends with this piece.
    End,
    /// There is no such connection (any more).
    Reset,
}

/// A piece of a control channel's stream: `offset` is that of the payload's first byte, and all before
/// `acknowledged` has come of the other direction. Both are modulo 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signal {
    /// What it is besides.
    pub flag: Flag,
    /// Where in the stream the payload begins.
    pub offset: u32,
    /// What has come.
    pub acknowledged: u32,
}

impl Signal {
    /// Appends the fields; the payload follows.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.push(self.flag as u8);
        out.extend_from_slice(&self.offset.to_be_bytes());
        out.extend_from_slice(&self.acknowledged.to_be_bytes());
    }

    /// The fields and the payload of a body.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(body: &[u8]) -> Result<(Signal, &[u8]), Malformed> {
        let (head, payload) = body.split_first_chunk::<SIGNAL_BYTES>().ok_or(Malformed::Short)?;
        let flag = match head[0] {
            0 => Flag::None,
            1 => Flag::Open,
            2 => Flag::Retry,
            3 => Flag::Opens,
            4 => Flag::End,
            5 => Flag::Reset,
            other => return Err(Malformed::Flag(other)),
        };
        Ok((Signal { flag, offset: be32(&head[1..5]), acknowledged: be32(&head[5..9]) }, payload))
    }
}

fn be16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |n, b| n << 8 | u16::from(*b))
}

fn be32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |n, b| n << 8 | u32::from(*b))
}

fn be48(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |n, b| n << 8 | u64::from(*b))
}
