//! What hosts that do their worst can make an endpoint of ATP hold: what it counts is what it really has, and there is an end to it.

mod tls;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tls::Tls;
use weir_proto::Time;
use weir_proto::atp::{Closed, ConnectionConfig, ConnectionId, Endpoint, EndpointConfig, Event, Read};
use weir_proto::limits::Limits;

thread_local! {
    /// What is allocated now is the server's.
    static OF_SERVER: Cell<bool> = const { Cell::new(false) };
}

/// Bytes that the server has.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, which knows of each allocation whether it is the server's.
struct Counting;

const TAG_BYTES: usize = 16;

fn tagged(layout: Layout) -> Option<Layout> {
    let fits = layout.align() <= TAG_BYTES;
    fits.then(|| Layout::from_size_align(layout.size() + TAG_BYTES, TAG_BYTES).ok()).flatten()
}

// SAFETY: what is handed out lies within an allocation of the system's that is longer by the tag, and is as aligned as the tag is long.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(longer) = tagged(layout) else {
            // SAFETY: the layout is the caller's.
            return unsafe { System.alloc(layout) };
        };
        // SAFETY: it is longer than nothing.
        let begin = unsafe { System.alloc(longer) };
        if begin.is_null() {
            return begin;
        }
        let counts = OF_SERVER.try_with(Cell::get).unwrap_or(false);
        if counts {
            HELD.fetch_add(layout.size(), Relaxed);
        }
        // SAFETY: there is room for the tag, and the caller's bytes follow it.
        unsafe {
            begin.write(u8::from(counts));
            begin.add(TAG_BYTES)
        }
    }

    unsafe fn dealloc(&self, bytes: *mut u8, layout: Layout) {
        let Some(longer) = tagged(layout) else {
            // SAFETY: it was allocated with the same layout.
            return unsafe { System.dealloc(bytes, layout) };
        };
        // SAFETY: the tag lies before what was handed out, in the same allocation.
        unsafe {
            let begin = bytes.sub(TAG_BYTES);
            if begin.read() == 1 {
                HELD.fetch_sub(layout.size(), Relaxed);
            }
            System.dealloc(begin, longer);
        }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SERVER: &str = "10.0.0.1:4000";
const MEMORY_BYTES: usize = 32 << 20;
const MANY: usize = 150;
const FEW: usize = 10;

fn of_server<T>(does: impl FnOnce() -> T) -> T {
    OF_SERVER.set(true);
    let done = does();
    OF_SERVER.set(false);
    done
}

/// A server, and hosts with a connection each.
struct World {
    now: Time,
    server: Endpoint,
    hosts: BTreeMap<SocketAddr, (Endpoint, ConnectionId)>,
    /// The server's connections, and whether it reads what comes.
    reads: bool,
    peak: usize,
    closed: BTreeMap<SocketAddr, Closed>,
}

impl World {
    fn new(tls: &Tls) -> Self {
        let limits = Limits { memory_bytes: MEMORY_BYTES, ..Limits::default() };
        let (connection, server) = (ConnectionConfig::default(), Some(tls.configs().1));
        let config = EndpointConfig { connection, limits, server, key: [1; 32] };
        let server = of_server(|| Endpoint::new(config));
        World {
            now: Time::from_nanos(1),
            server,
            hosts: BTreeMap::new(),
            reads: false,
            peak: 0,
            closed: BTreeMap::new(),
        }
    }

    fn connect(&mut self, tls: &Tls, n: usize) -> SocketAddr {
        let address = SocketAddr::from(([10, 1, (n >> 8) as u8, n as u8], 5000));
        let connection = ConnectionConfig {
            send_bytes: usize::MAX,
            stream_send_bytes: usize::MAX,
            opening: Duration::from_secs(100),
            ..ConnectionConfig::default()
        };
        let config =
            EndpointConfig { connection, limits: Limits::default(), server: None, key: [n as u8; 32] };
        let mut endpoint = Endpoint::new(config);
        let server = SERVER.parse().unwrap();
        let id = endpoint.connect(self.now, server, "here".try_into().unwrap(), tls.configs().0).unwrap();
        self.hosts.insert(address, (endpoint, id));
        address
    }

    /// Writes to as many streams as there may be.
    fn flood(&mut self, address: SocketAddr) {
        let now = self.now;
        let (endpoint, id) = self.hosts.get_mut(&address).unwrap();
        endpoint.with(*id, |connection| {
            while let Some(stream) = connection.open() {
                connection.write(now, stream, &[7; 200_000]).unwrap();
            }
        });
    }

    /// Lets time pass, and datagrams. `loses`: whether the nth of a host's is lost on its way to the server.
    fn run_for(&mut self, duration: Duration, loses: impl Fn(usize) -> bool) {
        let until = self.now + duration;
        let (mut buffer, mut sent) = (Vec::new(), 0);
        while self.now < until {
            self.now = self.now + Duration::from_micros(500);
            let now = self.now;
            for (address, (endpoint, _)) in &mut self.hosts {
                while let Some(transmit) = endpoint.poll_transmit(now, 1, 2000, &mut buffer) {
                    assert_eq!(transmit.to, SERVER.parse().unwrap());
                    sent += 1;
                    if !loses(sent) {
                        let server = &mut self.server;
                        of_server(|| {
                            server.handle_datagram(now, *address, None, Default::default(), &mut buffer)
                        });
                    }
                    buffer.clear();
                }
                while let Some((_, event)) = endpoint.poll_event() {
                    if let Event::Closed(why) = event {
                        self.closed.insert(*address, why);
                    }
                }
            }
            loop {
                let server = &mut self.server;
                let mut out = Vec::new();
                let Some(transmit) = of_server(|| server.poll_transmit(now, 1, 2000, &mut out)) else {
                    break;
                };
                if let Some((endpoint, _)) = self.hosts.get_mut(&transmit.to) {
                    endpoint.handle_datagram(
                        now,
                        SERVER.parse().unwrap(),
                        None,
                        Default::default(),
                        &mut out,
                    );
                }
            }
            let (server, reads) = (&mut self.server, self.reads);
            of_server(|| {
                while let Some((id, event)) = server.poll_event() {
                    if let Event::Readable(stream) = event
                        && reads
                    {
                        let mut out = [0; 4096];
                        let mut read =
                            || server.with(id, |connection| connection.read(now, stream, &mut out));
                        while let Some(Read::Bytes(_)) = read() {}
                    }
                }
            });
            self.peak = self.peak.max(HELD.load(Relaxed));
        }
    }
}

/// A world that so many hosts have flooded.
fn flooded(tls: &Tls, hosts: usize) -> World {
    let mut world = World::new(tls);
    let hostile: Vec<_> = (0..hosts).map(|n| world.connect(tls, n)).collect();
    world.run_for(Duration::from_millis(50), |_| false);
    for address in &hostile {
        world.flood(*address);
    }
    // Every seventh datagram is lost, so that much comes out of order.
    world.run_for(Duration::from_millis(200), |n| n % 7 == 0);
    world
}

/// What the server has is counted in this process: no other test may run beside this one.
#[test]
fn hosts_that_do_their_worst_cost_no_more_than_was_said_and_a_few_leave_some_to_others() {
    let tls = Tls::new();
    let many = flooded(&tls, MANY);
    let (said, had) = (many.server.peak_bytes(), many.peak);
    assert!(said <= MEMORY_BYTES, "{said}");
    assert!(said > MEMORY_BYTES * 9 / 10, "they have not tried: {said}");
    assert!(had < MEMORY_BYTES + MEMORY_BYTES / 4, "the server had {had} bytes, and said {said}");
    drop(many);

    let mut world = flooded(&tls, FEW);
    world.reads = true;
    let good = world.connect(&tls, FEW + 1);
    world.run_for(Duration::from_millis(50), |_| false);
    assert_eq!(world.closed.get(&good), None);
    let now = world.now;
    let (endpoint, id) = world.hosts.get_mut(&good).unwrap();
    endpoint.with(*id, |connection| {
        assert!(connection.is_connected());
        let stream = connection.open().unwrap();
        connection.write(now, stream, &[7; 5_000]).unwrap();
        connection.finish(stream).unwrap();
    });
    world.run_for(Duration::from_millis(50), |_| false);
    let (endpoint, id) = &world.hosts[&good];
    assert_eq!(endpoint.connection(*id).unwrap().unacknowledged_bytes(), 0);
}
