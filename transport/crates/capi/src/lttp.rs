//! LTTP: clients and servers.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use proto::lttp::{ClientConfig, ServerConfig};
use proto::object::Layout;
use sim::NodeId;
use sim::lttp::{ClientNode, Outcome, ServerNode};
use wire::control::Code;

use crate::boundary::{bytes, put, status, text};
use crate::node::{COMPLETE, FAILED, Kind, Node, SECRET, made, node};

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
    // SAFETY: the caller's promise.
    unsafe { put(config, defaults) };
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
    made(|| {
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
        Some(Kind::Client(Box::new(client), n_servers))
    })
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
    status(|| {
        // SAFETY: the caller's promise.
        let (client, path) = unsafe { (node(client)?, text(path)?) };
        match &mut client.kind {
            Kind::Client(client, servers) if server < *servers && client.lost(server).is_none() => {
                i64::try_from(client.fetch(server, path, Vec::new(), None)).ok()
            }
            _ => None,
        }
    })
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
                // SAFETY: the caller's promise.
                unsafe { put(since_ns, at.as_nanos()) };
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
            // SAFETY: the caller's promise.
            unsafe { put(place, count) };
        }
        Some(0)
    })
}

/// A server without objects.
#[unsafe(no_mangle)]
pub extern "C" fn weir_lttp_server_new(secure: bool, seed: u64) -> *mut Node {
    made(|| {
        let config = ServerConfig { seed, ..ServerConfig::default() };
        let server = ServerNode::new(config, secure.then_some(SECRET));
        Some(Kind::Server(Box::new(server)))
    })
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
