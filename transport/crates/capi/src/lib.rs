//! C interface to the state machines, for simulators: the nodes of [`sim`] behind opaque pointers.
//!
//! `include/weir_transport.h` is the interface, and says what callers must hold to. No panic crosses it.

use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;

use proto::Time;
use proto::dfcp::{RateConfig, ReceiverConfig, SenderConfig};
use proto::lttp::{ClientConfig, ServerConfig};
use proto::object::Layout;
use sim::dfcp::{self, ReceiverNode, SenderNode, SenderSetup};
use sim::lttp::{ClientNode, Outcome, ServerNode};
use sim::{Datagram, NodeId, Output};
use wire::control::Code;

const EINVAL: c_int = -1;
const EPANIC: c_int = -2;
const NEVER: u64 = u64::MAX;
const COMPLETE: c_int = 1;
const FAILED: c_int = 2;

/// In a simulation there is no TLS that a secret could come from, and nobody to keep it from.
const SECRET: [u8; proto::protect::SECRET_BYTES] = [0x57; proto::protect::SECRET_BYTES];

/// An endpoint.
pub struct Node {
    kind: Kind,
    /// What the last output points to.
    output: Vec<u8>,
}

enum Kind {
    Client(Box<ClientNode>, usize),
    Server(Box<ServerNode>),
    Sender(Box<SenderNode>),
    Receiver(Box<ReceiverNode>),
}

impl Node {
    fn new(kind: Kind) -> *mut Node {
        Box::into_raw(Box::new(Node { kind, output: Vec::new() }))
    }

    fn machine(&mut self) -> &mut dyn sim::Node {
        match &mut self.kind {
            Kind::Client(client, _) => &mut **client,
            Kind::Server(server) => &mut **server,
            Kind::Sender(sender) => &mut **sender,
            Kind::Receiver(receiver) => &mut **receiver,
        }
    }
}

/// How a client of LTTP behaves (`struct weir_lttp_config`).
#[repr(C)]
pub struct LttpConfig {
    symbol_bytes: u16,
    block_symbols: u16,
    independent: bool,
    credits: bool,
    secure: bool,
    window_floor_bytes: u64,
    window_ceiling_bytes: u64,
}

/// How a sender of DFCP behaves (`struct weir_dfcp_config`).
#[repr(C)]
pub struct DfcpConfig {
    symbol_bytes: u16,
    block_symbols: u16,
    secure: bool,
    fallback: bool,
    seed: u64,
}

/// What a node wants done (`struct weir_output`).
#[repr(C)]
pub struct COutput {
    kind: c_int,
    to: u32,
    bytes: *const u8,
    n_bytes: usize,
}

/// Carries a call out, without letting a panic pass.
fn call<T>(failed: T, act: impl FnOnce() -> Option<T>, invalid: T) -> T {
    catch_unwind(AssertUnwindSafe(act)).map_or(failed, |done| done.unwrap_or(invalid))
}

fn status(act: impl FnOnce() -> Option<c_int>) -> c_int {
    call(EPANIC, act, EINVAL)
}

/// # Safety
/// As the header says: null, or a node that was not freed and that nobody else uses.
unsafe fn node<'a>(node: *mut Node) -> Option<&'a mut Node> {
    // SAFETY: the caller's promise.
    unsafe { node.as_mut() }
}

/// # Safety
/// Null, or readable for `length` bytes.
unsafe fn bytes<'a>(begin: *const u8, length: usize) -> Option<&'a [u8]> {
    match (begin.is_null(), length) {
        (_, 0) => Some(&[]),
        (true, _) => None,
        // SAFETY: the caller's promise.
        (false, _) => Some(unsafe { std::slice::from_raw_parts(begin, length) }),
    }
}

/// # Safety
/// Null, or a string that ends with a zero.
unsafe fn text<'a>(begin: *const c_char) -> Option<&'a str> {
    // SAFETY: the caller's promise.
    (!begin.is_null()).then(|| unsafe { CStr::from_ptr(begin) })?.to_str().ok()
}

/// Fills in what `fountain` does.
///
/// # Safety
/// `config` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_lttp_defaults(config: *mut LttpConfig) {
    let default = ClientConfig::default();
    let defaults = LttpConfig {
        symbol_bytes: default.symbol_bytes,
        block_symbols: default.block_symbols,
        independent: default.code == Code::Independent,
        credits: default.credits,
        secure: true,
        window_floor_bytes: default.window_floor_bytes as u64,
        window_ceiling_bytes: default.window_ceiling_bytes as u64,
    };
    if !config.is_null() {
        // SAFETY: the caller's promise.
        unsafe { config.write(defaults) };
    }
}

/// A client of some servers.
///
/// # Safety
/// `config` is null or readable, `servers` is readable for `n_servers` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_lttp_client_new(
    config: *const LttpConfig,
    servers: *const u32,
    n_servers: usize,
) -> *mut Node {
    call(
        ptr::null_mut(),
        || {
            // SAFETY: the caller's promise.
            let config = unsafe { config.as_ref() }?;
            if servers.is_null() || n_servers == 0 {
                return None;
            }
            // SAFETY: the caller's promise.
            let servers = unsafe { std::slice::from_raw_parts(servers, n_servers) };
            Layout::new(config.symbol_bytes, config.block_symbols, 0)?;
            let secret = config.secure.then_some(SECRET);
            let settings = ClientConfig {
                symbol_bytes: config.symbol_bytes,
                block_symbols: config.block_symbols,
                code: if config.independent { Code::Independent } else { Code::Dealt },
                credits: config.credits,
                window_floor_bytes: usize::try_from(config.window_floor_bytes).ok()?,
                window_ceiling_bytes: usize::try_from(config.window_ceiling_bytes).ok()?,
                ..ClientConfig::default()
            };
            let nodes: Vec<NodeId> = servers.iter().map(|server| NodeId(*server as usize)).collect();
            let client = ClientNode::new(settings, secret, &nodes);
            Some(Node::new(Kind::Client(Box::new(client), n_servers)))
        },
        ptr::null_mut(),
    )
}

/// Asks for an object.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_lttp_client_fetch(
    client: *mut Node,
    server: usize,
    path: *const c_char,
) -> i64 {
    call(
        i64::from(EPANIC),
        || {
            // SAFETY: the caller's promise.
            let (client, path) = unsafe { (node(client)?, text(path)?) };
            match &mut client.kind {
                Kind::Client(client, servers) if server < *servers && client.lost(server).is_none() => {
                    i64::try_from(client.fetch(server, path, Vec::new(), None)).ok()
                }
                _ => None,
            }
        },
        i64::from(EINVAL),
    )
}

/// How a fetch stands.
///
/// # Safety
/// As the header says; `since_ns` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_lttp_client_state(client: *mut Node, fetch: u64, since_ns: *mut u64) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let Kind::Client(client, _) = &unsafe { node(client) }?.kind else { return None };
        match client.all().get(usize::try_from(fetch).ok()?)?.outcome() {
            Outcome::Pending => Some(0),
            Outcome::Complete(at) => {
                if !since_ns.is_null() {
                    // SAFETY: the caller's promise.
                    unsafe { since_ns.write(at.as_nanos()) };
                }
                Some(COMPLETE)
            }
            _ => Some(FAILED),
        }
    })
}

/// Symbols of a server.
///
/// # Safety
/// As the header says; the pointers are null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_lttp_client_symbols(
    client: *mut Node,
    server: usize,
    useful: *mut u64,
    late: *mut u64,
    missing: *mut u64,
) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let Kind::Client(client, servers) = &unsafe { node(client) }?.kind else { return None };
        if server >= *servers {
            return None;
        }
        let report = client.report(server);
        for (place, count) in [(useful, report.useful), (late, report.late), (missing, report.missing)] {
            if !place.is_null() {
                // SAFETY: the caller's promise.
                unsafe { place.write(count) };
            }
        }
        Some(0)
    })
}

/// A server without objects.
#[unsafe(no_mangle)]
pub extern "C" fn weir_lttp_server_new(secure: bool, seed: u64) -> *mut Node {
    call(
        ptr::null_mut(),
        || {
            let config = ServerConfig { seed, ..ServerConfig::default() };
            let server = ServerNode::new(config, secure.then_some(SECRET));
            Some(Node::new(Kind::Server(Box::new(server))))
        },
        ptr::null_mut(),
    )
}

/// Puts an object at a path.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_lttp_server_put(
    server: *mut Node,
    path: *const c_char,
    begin: *const u8,
    n_bytes: usize,
) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let (server, path, bytes) = unsafe { (node(server)?, text(path)?, bytes(begin, n_bytes)?) };
        let Kind::Server(server) = &mut server.kind else { return None };
        server.put(path, Arc::<[u8]>::from(bytes));
        Some(0)
    })
}

/// Fills in what `fountain` does.
///
/// # Safety
/// `config` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_dfcp_defaults(config: *mut DfcpConfig) {
    let SenderConfig { symbol_bytes, block_symbols, seed, rate, .. } = SenderConfig::default();
    let defaults = DfcpConfig { symbol_bytes, block_symbols, secure: true, fallback: rate.fallback, seed };
    if !config.is_null() {
        // SAFETY: the caller's promise.
        unsafe { config.write(defaults) };
    }
}

/// A sender.
///
/// # Safety
/// `config` is null or readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_dfcp_sender_new(
    config: *const DfcpConfig,
    receiver: u32,
    connection: u32,
) -> *mut Node {
    call(
        ptr::null_mut(),
        || {
            // SAFETY: the caller's promise.
            let config = unsafe { config.as_ref() }?;
            Layout::new(config.symbol_bytes, config.block_symbols, 0)?;
            let default = SenderConfig::default();
            let settings = SenderConfig {
                symbol_bytes: config.symbol_bytes,
                block_symbols: config.block_symbols,
                // What a simulator tells holds until it tells something else.
                rate: RateConfig { fallback: config.fallback, expiry: None, ..default.rate },
                seed: config.seed,
                ..default
            };
            let secret = config.secure.then_some(SECRET);
            let setup = SenderSetup { config: settings, secret, connection, rates: Vec::new() };
            let sender = SenderNode::new(setup, NodeId(receiver as usize));
            Some(Node::new(Kind::Sender(Box::new(sender))))
        },
        ptr::null_mut(),
    )
}

/// Sends an object.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_dfcp_sender_send(
    sender: *mut Node,
    path: *const c_char,
    begin: *const u8,
    n_bytes: usize,
) -> i64 {
    call(
        i64::from(EPANIC),
        || {
            // SAFETY: the caller's promise.
            let (sender, path, bytes) = unsafe { (node(sender)?, text(path)?, bytes(begin, n_bytes)?) };
            let Kind::Sender(sender) = &mut sender.kind else { return None };
            if path.len() > wire::control::MAX_PATH_BYTES {
                return None;
            }
            i64::try_from(sender.send(path, Arc::<[u8]>::from(bytes))).ok()
        },
        i64::from(EINVAL),
    )
}

/// Tells a sender how fast it may send.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_dfcp_sender_tell_rate(sender: *mut Node, at_ns: u64, bps: f64) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let Kind::Sender(sender) = &mut unsafe { node(sender) }?.kind else { return None };
        if !(bps.is_finite() && bps >= 0.0) {
            return None;
        }
        sender.tell_rate(Time::from_nanos(at_ns), bps);
        Some(0)
    })
}

/// How an object stands.
///
/// # Safety
/// As the header says; `since_ns` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_dfcp_sender_state(sender: *mut Node, object: u64, since_ns: *mut u64) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let Kind::Sender(sender) = &unsafe { node(sender) }?.kind else { return None };
        let object = usize::try_from(object).ok().filter(|object| *object < sender.objects())?;
        match sender.outcome(object) {
            dfcp::Outcome::Pending => Some(0),
            dfcp::Outcome::Stored(at) => {
                if !since_ns.is_null() {
                    // SAFETY: the caller's promise.
                    unsafe { since_ns.write(at.as_nanos()) };
                }
                Some(COMPLETE)
            }
            dfcp::Outcome::Refused(_) | dfcp::Outcome::Lost => Some(FAILED),
        }
    })
}

/// Symbols of a sender.
///
/// # Safety
/// As the header says; the pointers are null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_dfcp_sender_symbols(
    sender: *mut Node,
    symbols: *mut u64,
    repairs: *mut u64,
) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let Kind::Sender(sender) = &unsafe { node(sender) }?.kind else { return None };
        let counters = sender.counters();
        for (place, count) in [(symbols, counters.symbols), (repairs, counters.repairs)] {
            if !place.is_null() {
                // SAFETY: the caller's promise.
                unsafe { place.write(count) };
            }
        }
        Some(0)
    })
}

/// A receiver.
#[unsafe(no_mangle)]
pub extern "C" fn weir_dfcp_receiver_new(secure: bool) -> *mut Node {
    call(
        ptr::null_mut(),
        || {
            let receiver = ReceiverNode::new(ReceiverConfig::default(), secure.then_some(SECRET));
            Some(Node::new(Kind::Receiver(Box::new(receiver))))
        },
        ptr::null_mut(),
    )
}

/// What has come of an object.
///
/// # Safety
/// As the header says; the pointers may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_dfcp_receiver_object(
    receiver: *mut Node,
    path: *const c_char,
    begin: *mut *const u8,
    n_bytes: *mut usize,
) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let (receiver, path) = unsafe { (node(receiver)?, text(path)?) };
        let Kind::Receiver(receiver) = &receiver.kind else { return None };
        if begin.is_null() || n_bytes.is_null() {
            return None;
        }
        let bytes = receiver.received(path).map(|received| &received.bytes[..])?;
        // SAFETY: the caller's promise.
        unsafe {
            begin.write(bytes.as_ptr());
            n_bytes.write(bytes.len());
        }
        Some(0)
    })
}

/// A datagram has arrived.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_node_handle_datagram(
    to: *mut Node,
    now_ns: u64,
    from: u32,
    ce: bool,
    begin: *const u8,
    n_bytes: usize,
) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let (to, bytes) = unsafe { (node(to)?, bytes(begin, n_bytes)?) };
        let from = NodeId(from as usize);
        let datagram = Datagram { from, ce, ..Datagram::new(from, bytes.to_vec()) };
        to.machine().handle(Time::from_nanos(now_ns), datagram);
        Some(0)
    })
}

/// Control bytes have arrived, in order.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_node_handle_control(
    to: *mut Node,
    now_ns: u64,
    from: u32,
    begin: *const u8,
    n_bytes: usize,
) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let (to, bytes) = unsafe { (node(to)?, bytes(begin, n_bytes)?) };
        to.machine().handle_control(Time::from_nanos(now_ns), NodeId(from as usize), bytes.to_vec());
        Some(0)
    })
}

/// The other side has closed the reliable channel.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_node_handle_closed(to: *mut Node, now_ns: u64, from: u32) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let to = unsafe { node(to) }?;
        to.machine().handle_control_closed(Time::from_nanos(now_ns), NodeId(from as usize));
        Some(0)
    })
}

/// The time of [`weir_node_poll_timeout`] has come.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_node_handle_timeout(to: *mut Node, now_ns: u64) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        unsafe { node(to) }?.machine().handle_timeout(Time::from_nanos(now_ns));
        Some(0)
    })
}

/// When to call [`weir_node_handle_timeout`].
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_node_poll_timeout(of: *mut Node) -> u64 {
    call(
        NEVER,
        || {
            // SAFETY: the caller's promise.
            unsafe { node(of) }?.machine().poll_timeout().map(Time::as_nanos)
        },
        NEVER,
    )
}

/// The next thing that a node wants done.
///
/// # Safety
/// As the header says; `output` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_node_poll_transmit(of: *mut Node, now_ns: u64, output: *mut COutput) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let of = unsafe { node(of) }.filter(|_| !output.is_null())?;
        let Some(next) = of.machine().poll_transmit(Time::from_nanos(now_ns)) else { return Some(0) };
        let (kind, to) = match next {
            Output::Datagram(datagram) => {
                of.output = datagram.payload;
                (1, datagram.to)
            }
            Output::Control { to, message } => {
                of.output = message;
                (2, to)
            }
            Output::CloseControl { to } => {
                of.output = Vec::new();
                (3, to)
            }
        };
        let to = u32::try_from(to.0).ok()?;
        // SAFETY: the caller's promise.
        unsafe { output.write(COutput { kind, to, bytes: of.output.as_ptr(), n_bytes: of.output.len() }) };
        Some(1)
    })
}

/// Ends a node.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_node_free(of: *mut Node) {
    if !of.is_null() {
        // SAFETY: it came from `Node::new`, by the caller's promise.
        let node = unsafe { Box::from_raw(of) };
        // A panic while it is dropped is the last of it.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(node)));
    }
}
