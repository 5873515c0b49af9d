//! What the layer of TCP-ACC has allocated: with flows that come and go it does not grow, and flows that are idle have little.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use weir_proto::Time;
use weir_proto::acc::packet::{Look, Pair};
use weir_proto::acc::redundancy::Policy;
use weir_proto::acc::{Arrival, Config, DEFAULT_PORT, Event, KEY_BYTES, Layer, Outbox, Strategy};
use weir_proto::ecn::Codepoint;

/// Bytes that are allocated.
static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, which counts.
struct Counting;

// SAFETY: all is the system's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Relaxed);
        // SAFETY: the layout is the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, bytes: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Relaxed);
        // SAFETY: it was allocated with the same layout.
        unsafe { System.dealloc(bytes, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Held by the test whose bytes are counted.
static COUNTED: Mutex<()> = Mutex::new(());

/// Of IPv4 and TCP, without length, hosts and ports.
const HEADERS: [u8; 40] =
    *b"E\0\0\0\0\0\x40\0\x40\x06\0\0\x0a\0\0\0\x0a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x50\x10\0\0\0\0\0\0";
const FLOWS: u16 = 200;
const PACKETS: usize = 100;
const DATA_BYTES: usize = 1300;
/// Longer than flows are remembered that nothing is sent in.
const UNTIL_FORGOTTEN: Duration = Duration::from_secs(100);
/// What a flow may have that has nothing under way: its two ends, and their places among others.
const OF_IDLE_FLOW_BYTES: usize = 8 << 10;

/// What two layers may have that know of no flow: tables, which have grown for as many as there were at once. With 4,000 flows it is exceeded
/// by 100 bytes that each leaves.
const EMPTY_BYTES: usize = 640 << 10;

fn address(n: usize) -> IpAddr {
    [10, 0, 0, n as u8 + 1].into()
}

fn pair(of: usize) -> Pair {
    Pair { local: address(of), remote: address(1 - of) }
}

/// Two hosts, and datagrams that take no time.
struct Hosts {
    now: Time,
    layers: [Layer; 2],
    out: Outbox,
    /// For whom each is.
    under_way: VecDeque<(usize, Vec<u8>)>,
    /// Of so many datagrams one is lost.
    loses: u64,
    sent: u64,
    given: u64,
}

impl Hosts {
    fn new(loses: u64) -> Self {
        let config = Config::new([7; KEY_BYTES], Strategy::Complementary(Policy::default()));
        let mut hosts = Hosts {
            now: Time::from_nanos(1_000_000_000),
            layers: [Layer::new(config.clone(), &[1; 32]), Layer::new(config, &[2; 32])],
            out: Outbox::default(),
            under_way: VecDeque::new(),
            loses,
            sent: 0,
            given: 0,
        };
        hosts.layers[0].look_for(hosts.now, pair(0), true, &mut hosts.out);
        hosts.carry(0);
        assert_eq!(hosts.layers[0].poll_event(), Some(Event::Up(pair(0))));
        hosts
    }

    /// A packet of a connection, with these ports.
    fn send(&mut self, from: usize, ports: [u16; 2], data: usize) {
        let mut packet = HEADERS.to_vec();
        packet[2..4].copy_from_slice(&((HEADERS.len() + data) as u16).to_be_bytes());
        (packet[15], packet[19]) = (from as u8 + 1, 2 - from as u8);
        packet[20..24].copy_from_slice(&ports.map(u16::to_be_bytes).concat());
        packet.resize(HEADERS.len() + data, 9);
        let (head, rest) = packet.split_at(HEADERS.len());
        let look = Look::at(head).expect("it is a packet of IP");
        assert!(self.layers[from].send(self.now, &look, head, rest, &mut self.out));
        self.carry(from);
    }

    /// Carries what a host sends, and what comes of that.
    fn carry(&mut self, from: usize) {
        self.collect(from);
        while let Some((to, mut datagram)) = self.under_way.pop_front() {
            self.sent += 1;
            if self.sent.is_multiple_of(self.loses) {
                continue;
            }
            let arrival = Arrival { pair: pair(to), port: DEFAULT_PORT, ecn: Codepoint::NotEct };
            let given = &mut self.given;
            self.layers[to]
                .receive(self.now, arrival, &mut datagram, &mut self.out, &mut |_, _, _| *given += 1);
            self.collect(to);
        }
    }

    fn collect(&mut self, from: usize) {
        let under_way = &mut self.under_way;
        self.out.drain(|burst| {
            under_way.extend(burst.bytes.chunks(burst.segment_bytes).map(|one| (1 - from, one.to_vec())));
        });
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let due = self.layers.iter().filter_map(Layer::poll_timeout).min();
            let Some(next) = due.filter(|due| *due <= end) else { break };
            self.now = self.now.max(next);
            for host in 0..2 {
                if self.layers[host].poll_timeout().is_some_and(|at| at <= self.now) {
                    let given = &mut self.given;
                    self.layers[host].handle_timeout(self.now, &mut self.out, &mut |_, _, _| *given += 1);
                    self.carry(host);
                }
            }
        }
        self.now = end;
    }

    fn flows(&self) -> usize {
        self.layers.iter().flat_map(Layer::peers).map(|peer| peer.flows.len()).sum()
    }

    fn held_bytes(&self) -> usize {
        self.layers.iter().map(Layer::held_bytes).sum()
    }

    /// Connections that begin, and what one host sends over them to the other.
    fn wave(&mut self, first_port: u16) {
        for _ in 0..PACKETS {
            for port in first_port..first_port + FLOWS {
                self.send(0, [port, 80], DATA_BYTES);
            }
            self.run(Duration::from_micros(500));
            for port in first_port..first_port + FLOWS {
                self.send(1, [80, port], 0);
            }
            self.run(Duration::from_micros(500));
        }
    }
}

fn allocated() -> usize {
    ALLOCATED.load(Relaxed)
}

#[test]
fn flows_that_come_and_go_leave_nothing_and_idle_ones_have_little() {
    let _counted = COUNTED.lock();
    let mut hosts = Hosts::new(50);
    for wave in 0..20 {
        let before = allocated();
        hosts.wave(1000 + wave * FLOWS);
        hosts.run(Duration::from_secs(2));
        assert!(hosts.flows() >= usize::from(FLOWS), "they are remembered");
        let held = hosts.held_bytes();
        let most = held + usize::from(FLOWS) * OF_IDLE_FLOW_BYTES;
        let has = allocated().saturating_sub(before);
        assert!(has < most, "wave {wave}: {has} bytes, of which {held} are counted, {} packets", hosts.given);
        hosts.run(UNTIL_FORGOTTEN);
        assert_eq!((hosts.flows(), hosts.held_bytes()), (0, 0));
        // What these keep for what is under way next.
        (hosts.out, hosts.under_way) = Default::default();
        assert!(allocated() < EMPTY_BYTES, "wave {wave}: {} bytes", allocated());
    }
}

/// Pools of connections live for days, and now and then one of them carries much.
#[test]
fn connections_that_have_carried_much_have_as_little_as_others_afterwards() {
    let _counted = COUNTED.lock();
    let mut hosts = Hosts::new(1000);
    let before = allocated();
    for round in 0..20 {
        for port in 1000..1000 + FLOWS {
            for _ in 0..5 * PACKETS {
                hosts.send(0, [port, 80], DATA_BYTES);
            }
            hosts.run(Duration::from_micros(500));
            hosts.send(1, [80, port], DATA_BYTES);
            hosts.run(Duration::from_millis(2));
        }
        for _ in 0..5 {
            for port in 1000..1000 + FLOWS {
                hosts.send(0, [port, 80], 20);
                hosts.send(1, [80, port], 20);
            }
            hosts.run(Duration::from_secs(4));
        }
        assert!(hosts.flows() >= 2 * usize::from(FLOWS), "all are remembered");
        let held = hosts.held_bytes();
        let has = allocated().saturating_sub(before);
        let most = held + hosts.flows() * OF_IDLE_FLOW_BYTES;
        assert!(has < most, "round {round}: {has} bytes, of which {held} are counted");
    }
}
