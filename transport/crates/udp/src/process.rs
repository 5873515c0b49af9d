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

/// Gives memory that is free back to the system. Where packets were kept for a while, glibc keeps what lies between others: after 20 minutes
/// of any traffic through a layer that held 0.6 to 7.6 MB of them, 13 of 21 MB.
pub(crate) fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no pointer, and may be called at any time by any thread.
    unsafe {
        nix::libc::malloc_trim(0);
    }
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

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    /// Bytes of memory that this process has.
    fn resident() -> usize {
        let text = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim_end_matches("kB").trim().parse::<usize>().unwrap() << 10
    }

    #[test]
    fn what_is_free_between_other_memory_is_given_back() {
        const PACKETS: usize = 40_000;
        let mut packets: Vec<Vec<u8>> = (0..PACKETS).map(|n| vec![n as u8; 1400]).collect();
        // One in 100 is kept, and keeps the memory around it.
        let mut n = 0;
        packets.retain(|_| {
            n += 1;
            n % 100 == 0
        });
        let before = resident();
        give_back_memory();
        let given = before.saturating_sub(resident());
        assert!(given > PACKETS * 1400 / 2, "{given} bytes of {before}");
        assert_eq!(packets.len(), PACKETS / 100);
    }
}
