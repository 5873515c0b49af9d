//! Datagrams at an even rate, whatever becomes of them: an overload that does not give way.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use crate::Failure;

const PAYLOAD_BYTES: usize = 1472;
/// With the headers of Ethernet, IPv4 and UDP.
const FRAME_BYTES: u64 = PAYLOAD_BYTES as u64 + 14 + 20 + 8;

pub(crate) fn send(to: SocketAddr, rate_bps: u64) -> Result<(), Failure> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(to)?;
    // By default the system may add 50 us to each wait.
    // SAFETY: it changes nothing but this thread's timers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    println!("{}", serde_json::json!({"event": "sending"}));
    let interval = Duration::from_nanos(FRAME_BYTES * 8 * 1_000_000_000 / rate_bps.max(1));
    let payload = [0x5a; PAYLOAD_BYTES];
    let mut due = Instant::now();
    loop {
        // Nobody may be listening; that is no concern of an overload.
        let _ = socket.send(&payload);
        due += interval;
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}
