//! Which of a host's addresses to use: the one that answers first ("Happy Eyeballs", RFC 8305).

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use proto::Time;
use proto::dfcp::Signalling;
use ring::rand::{SecureRandom, SystemRandom};
use wire::packet::Header;

use crate::clock::Clock;

/// An attempt begins so long after the one before, unless that has failed by then (section 8).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// A wait for an answer over UDP at most: then it is looked whether something is to be sent.
const LONGEST_WAIT: Duration = Duration::from_millis(250);
const LEAST_WAIT: Duration = Duration::from_millis(1);

/// What an address has to answer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// A TCP connection, as to an LTTP server.
    Tcp,
    /// The first signal of a DFCP sender.
    Signals,
}

/// The first of these addresses that answers, tried in turns of their families, each a quarter of a second after the one
/// before. A host with a single address is not asked. Attempts that have not ended go on in threads of their own, for
/// `patience` at most.
///
/// # Errors
/// None answers within `patience`: why the last one did not.
pub fn first_to_answer(addresses: &[SocketAddr], over: Over, patience: Duration) -> io::Result<SocketAddr> {
    if let [only] = addresses {
        return Ok(*only);
    }
    let clock = Clock::start();
    let end = clock.now() + patience;
    let mut race = Race::new(clock.now(), addresses);
    let mut failure = io::Error::new(ErrorKind::TimedOut, "no address answers");
    let (told, results) = channel();
    loop {
        while let Some(address) = race.poll(clock.now()) {
            let told = told.clone();
            let attempt = move || {
                let answer = match over {
                    Over::Tcp => TcpStream::connect_timeout(&address, patience).map(drop),
                    Over::Signals => greet(address, patience),
                };
                // Nobody listens any more once another has won.
                let _ = told.send((address, answer));
            };
            thread::Builder::new().name("reaching".into()).spawn(attempt)?;
        }
        if race.is_lost() {
            return Err(failure);
        }
        let until = race.next_at().map_or(end, |at| at.min(end));
        match results.recv_timeout(until.since(clock.now())) {
            Ok((address, Ok(()))) => return Ok(address),
            Ok((_, Err(e))) => {
                failure = e;
                race.failed(clock.now());
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) if clock.now() >= end => {
                return Err(failure);
            }
            Err(_) => {}
        }
    }
}

/// Sends the first signal of a sender, again and again, until something comes back. The receiver keeps nothing of it.
fn greet(to: SocketAddr, patience: Duration) -> io::Result<()> {
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    // A port that nobody has is told of at once.
    socket.connect(to)?;
    let mut number = [0; 4];
    SystemRandom::new().fill(&mut number).map_err(|_| io::Error::other("the system gives no randomness"))?;
    let connection = u32::from_be_bytes(number);
    let clock = Clock::start();
    let end = clock.now() + patience;
    let mut signalling = Signalling::initiate(clock.now(), connection);
    let (mut out, mut answer) = (Vec::new(), [0; 2048]);
    while clock.now() < end {
        while signalling.poll_transmit(clock.now(), &mut out) {
            socket.send(&out)?;
            out.clear();
        }
        let now = clock.now();
        let until = signalling.poll_timeout().map_or(end, |at| at.min(end));
        socket.set_read_timeout(Some(until.since(now).clamp(LEAST_WAIT, LONGEST_WAIT)))?;
        match socket.recv(&mut answer) {
            Ok(bytes) => {
                let header = Header::parse(&answer[..bytes]);
                if header.is_ok_and(|header| header.connection == connection) {
                    return Ok(());
                }
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(e) => return Err(e),
        }
    }
    Err(io::Error::new(ErrorKind::TimedOut, format!("{to} does not answer")))
}

/// When which attempt begins.
#[derive(Debug)]
struct Race {
    left: VecDeque<SocketAddr>,
    underway: usize,
    next_at: Time,
}

impl Race {
    fn new(now: Time, addresses: &[SocketAddr]) -> Self {
        Race { left: interleaved(addresses), underway: 0, next_at: now }
    }

    /// The address that is to be tried now.
    fn poll(&mut self, now: Time) -> Option<SocketAddr> {
        let next = (now >= self.next_at).then(|| self.left.pop_front()).flatten()?;
        (self.underway, self.next_at) = (self.underway + 1, now + ATTEMPT_DELAY);
        Some(next)
    }

    /// An attempt has failed: the next one need not wait (section 5).
    fn failed(&mut self, now: Time) {
        (self.underway, self.next_at) = (self.underway - 1, now);
    }

    /// When the next attempt begins, if there is one.
    fn next_at(&self) -> Option<Time> {
        (!self.left.is_empty()).then_some(self.next_at)
    }

    fn is_lost(&self) -> bool {
        self.left.is_empty() && self.underway == 0
    }
}

/// Families in turns, beginning with that of the first address, which the system prefers (section 4).
fn interleaved(addresses: &[SocketAddr]) -> VecDeque<SocketAddr> {
    let mut left: VecDeque<SocketAddr> = VecDeque::new();
    for address in addresses {
        // A resolver may name an address once for each of its sources.
        if !left.contains(address) {
            left.push_back(*address);
        }
    }
    let Some(first) = left.front().map(SocketAddr::is_ipv6) else { return left };
    let (mut ours, mut theirs): (VecDeque<_>, VecDeque<_>) =
        left.into_iter().partition(|a| a.is_ipv6() == first);
    let mut turns = VecDeque::new();
    while !ours.is_empty() || !theirs.is_empty() {
        turns.extend(ours.pop_front());
        turns.extend(theirs.pop_front());
    }
    turns
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn families_are_tried_in_turns() {
        let order = interleaved(&addresses(&[
            "[::1]:1",
            "[::2]:1",
            "[::1]:1",
            "[::3]:1",
            "10.0.0.1:1",
            "10.0.0.2:1",
        ]));
        let expected = ["[::1]:1", "10.0.0.1:1", "[::2]:1", "10.0.0.2:1", "[::3]:1"];
        assert_eq!(order, addresses(&expected));
        assert_eq!(
            interleaved(&addresses(&["10.0.0.1:1", "[::1]:1"])),
            addresses(&["10.0.0.1:1", "[::1]:1"])
        );
    }

    #[test]
    fn one_attempt_begins_after_another_and_at_once_where_that_fails() {
        let all = addresses(&["10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"]);
        let (start, ms) = (Time::ZERO, Duration::from_millis(1));
        let mut race = Race::new(start, &all);
        assert_eq!(race.poll(start), Some(all[0]));
        assert_eq!((race.poll(start), race.next_at()), (None, Some(start + ATTEMPT_DELAY)));
        assert_eq!(race.poll(start + 249 * ms), None);
        assert_eq!(race.poll(start + 250 * ms), Some(all[1]));
        race.failed(start + 260 * ms);
        assert_eq!(race.poll(start + 260 * ms), Some(all[2]));
        assert_eq!((race.next_at(), race.is_lost()), (None, false));
        race.failed(start + 270 * ms);
        race.failed(start + 280 * ms);
        assert!(race.is_lost());
    }

    /// An address of the loopback that swallows what is sent to it: its listener's queue is full.
    struct Silent {
        listener: TcpListener,
        _queued: Vec<TcpStream>,
    }

    impl Silent {
        fn new() -> Self {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            socket.bind(&addresses(&["127.0.0.1:0"])[0].into()).unwrap();
            socket.listen(0).unwrap();
            let listener = TcpListener::from(socket);
            let address = listener.local_addr().unwrap();
            let fill = |_| TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok();
            let queued: Vec<_> = (0..8).map_while(fill).collect();
            Silent { listener, _queued: queued }
        }
    }

    #[test]
    fn an_address_that_answers_is_found_behind_one_that_does_not_and_one_that_refuses() {
        let silent = Silent::new();
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let refusing = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (dead, alive) = (silent.listener.local_addr().unwrap(), server.local_addr().unwrap());
        for order in [[dead, refusing, alive], [refusing, dead, alive], [alive, dead, refusing]] {
            assert_eq!(first_to_answer(&order, Over::Tcp, PATIENCE).unwrap(), alive, "{order:?}");
        }
        let error = first_to_answer(&[refusing, refusing], Over::Tcp, PATIENCE).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        let error = first_to_answer(&[refusing, dead], Over::Tcp, Duration::from_millis(400)).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::ConnectionRefused), "{error}");
    }

    #[test]
    fn a_receiver_is_found_by_its_answer_to_a_signal() {
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let refusing = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (dead, alive) = (silent.local_addr().unwrap(), server.local_addr().unwrap());
        thread::spawn(move || {
            let mut datagram = [0; 2048];
            while let Ok((bytes, from)) = server.recv_from(&mut datagram) {
                let header = Header::parse(&datagram[..bytes]).unwrap();
                let mut answer = Vec::new();
                proto::dfcp::reset(header.connection, &mut answer);
                let _ = server.send_to(&answer, from);
            }
        });
        for order in [[dead, refusing, alive], [refusing, dead, alive]] {
            assert_eq!(first_to_answer(&order, Over::Signals, PATIENCE).unwrap(), alive, "{order:?}");
        }
        let error = first_to_answer(&[refusing, refusing], Over::Signals, PATIENCE).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    }
}
