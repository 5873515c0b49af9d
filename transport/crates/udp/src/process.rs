//! What a program may change of its process to serve more, and more precisely. Nothing else here changes it.

use std::num::NonZeroU64;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Makes the sleeps of the calling thread end when they should: by default Linux may add 50 µs to each, which is half of what a
/// burst of datagrams lasts. Call it in the thread that waits for the network. Threads that it starts inherit it.
pub fn sleep_precisely() {
    // A kernel that refuses paces more coarsely; nothing else depends on it.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Lets this process open as many files as it may: each client has a connection, and each object may have a file.
pub fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    // Without it fewer clients find room; accepting says so then.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// How many files this process may have open.
pub(crate) fn file_limit() -> usize {
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |open| open.try_into().unwrap_or(usize::MAX))
}

/// Bytes that nobody can foretell.
///
/// # Errors
/// The system has none.
pub fn random_bytes<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes)
        .map_err(|_| std::io::Error::other("the system has no random numbers"))?;
    Ok(bytes)
}
