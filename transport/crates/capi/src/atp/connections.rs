//! Connections: made, looked at, and ended.

use std::ffi::{c_char, c_int};

use proto::Time;
use proto::atp::{ConnectError, Connection, ConnectionId};
use rustls::pki_types::ServerName;

use super::{ECLOSED, ENOROOM, Endpoint, act, code, gone, tls};
use crate::address::Address;
use crate::boundary::{Fault, named, named_text, place};
use crate::identity::{Fingerprint, fingerprint};

/// Begins to connect to a server.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_atp_connect(
    endpoint: *mut Endpoint,
    now_ns: u64,
    server: *const Address,
    name: *const c_char,
    fingerprint: *const Fingerprint,
) -> i64 {
    let connect = |endpoint: &mut Endpoint| {
        // SAFETY: the caller's promise.
        let (server, known) = unsafe { (named("server", server)?, named("fingerprint", fingerprint)?) };
        let remote = server.socket()?;
        let name = if name.is_null() {
            ServerName::IpAddress(remote.ip().into())
        } else {
            // SAFETY: the caller's promise.
            let name = unsafe { named_text("name", name) }?;
            ServerName::try_from(name.to_owned())
                .map_err(|_| Fault::invalid(format!("{name:?} is neither a host's name nor an address")))?
        };
        let now = endpoint.at(now_ns)?;
        let config = endpoint.client(*known)?;
        let id = endpoint.inner.connect(now, remote, name, config).map_err(|error| match error {
            ConnectError::NoRoom => Fault { status: ENOROOM, what: error.to_string() },
            ConnectError::Closed => Fault { status: ECLOSED, what: error.to_string() },
            ConnectError::Tls(error) => tls(error),
        })?;
        endpoint.mine.insert(id);
        i64::try_from(id.0).map_err(|_| Fault::invalid("no number is left for a connection"))
    };
    // SAFETY: the caller's promise.
    unsafe { act(endpoint, connect) }
}

/// Where the other end of a connection is.
///
/// # Safety
/// As the header says; `remote` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_atp_remote(
    endpoint: *mut Endpoint,
    connection: u64,
    remote: *mut Address,
) -> c_int {
    let tell = |endpoint: &mut Endpoint| {
        let out = place("remote", remote)?;
        let remote = endpoint.inner.remote(ConnectionId(connection)).ok_or_else(|| gone(connection))?;
        // SAFETY: the caller's promise.
        unsafe { out.write(remote.into()) };
        Ok(0)
    };
    // SAFETY: the caller's promise.
    unsafe { act(endpoint, tell) }
}

/// The fingerprint of the certificate that the peer has shown.
///
/// # Safety
/// As the header says; `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_atp_peer_fingerprint(
    endpoint: *mut Endpoint,
    connection: u64,
    out: *mut Fingerprint,
) -> c_int {
    let tell = |endpoint: &mut Endpoint| {
        let out = place("fingerprint", out)?;
        let connection =
            endpoint.inner.connection(ConnectionId(connection)).ok_or_else(|| gone(connection))?;
        let Some(certificate) = connection.peer_certificate() else { return Ok(0) };
        // SAFETY: the caller's promise.
        unsafe { out.write(fingerprint(&certificate)) };
        Ok(1)
    };
    // SAFETY: the caller's promise.
    unsafe { act(endpoint, tell) }
}

/// Ends something, for a reason of the application.
///
/// # Safety
/// As the header says.
unsafe fn end(
    endpoint: *mut Endpoint,
    now_ns: u64,
    reason: (u64, *const c_char),
    does: impl FnOnce(&mut Endpoint, Time, u64, &str) -> Result<(), Fault>,
) -> c_int {
    let end = |endpoint: &mut Endpoint| {
        let code = code(reason.0)?;
        // SAFETY: the caller's promise.
        let reason = unsafe { named_text("reason", reason.1) }?;
        let now = endpoint.at(now_ns)?;
        does(endpoint, now, code, reason)?;
        Ok(0)
    };
    // SAFETY: the caller's promise.
    unsafe { act(endpoint, end) }
}

fn end_open(
    endpoint: &mut Endpoint,
    connection: u64,
    does: impl FnOnce(&mut Connection),
) -> Result<(), Fault> {
    endpoint.with(connection, |open| {
        if !open.is_open() {
            return Err(gone(connection));
        }
        does(open);
        Ok(())
    })
}

/// Ends a connection at once.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_atp_close(
    endpoint: *mut Endpoint,
    now_ns: u64,
    connection: u64,
    code: u64,
    reason: *const c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        end(endpoint, now_ns, (code, reason), |endpoint, now, code, reason| {
            end_open(endpoint, connection, |open| open.close(now, code, reason))
        })
    }
}

/// Ends a connection once the peer has got all that was written.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_atp_close_when_done(
    endpoint: *mut Endpoint,
    now_ns: u64,
    connection: u64,
    code: u64,
    reason: *const c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        end(endpoint, now_ns, (code, reason), |endpoint, now, code, reason| {
            end_open(endpoint, connection, |open| open.close_when_done(now, code, reason))
        })
    }
}

/// Nobody reads a connection any more: it ends once the peer has got all that was written.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_atp_forget(
    endpoint: *mut Endpoint,
    now_ns: u64,
    connection: u64,
    code: u64,
    reason: *const c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        end(endpoint, now_ns, (code, reason), |endpoint, now, code, reason| {
            let id = ConnectionId(connection);
            if endpoint.inner.connection(id).is_none() {
                return Err(gone(connection));
            }
            endpoint.inner.forget(now, id, code, reason);
            Ok(())
        })
    }
}

/// Ends all connections at once, and makes and takes no more.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_atp_close_all(
    endpoint: *mut Endpoint,
    now_ns: u64,
    code: u64,
    reason: *const c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        end(endpoint, now_ns, (code, reason), |endpoint, now, code, reason| {
            endpoint.inner.close(now, code, reason);
            Ok(())
        })
    }
}

/// Makes and takes no more connections; each ends once its peer has got all that was written.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_atp_leave(
    endpoint: *mut Endpoint,
    now_ns: u64,
    code: u64,
    reason: *const c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        end(endpoint, now_ns, (code, reason), |endpoint, now, code, reason| {
            endpoint.inner.leave(now, code, reason);
            Ok(())
        })
    }
}
