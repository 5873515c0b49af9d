//! The code over windows of packets, beside the crate rlnc: what a coded packet costs, and bringing back what was lost of a window.
//!
//! Packets have [`PACKET_BYTES`]. A window comes but for those that are lost, then as many coded packets. Ours keeps one decoder, as a
//! receiver does, and forgets a window before the next; rlnc makes a decoder for each. All that is recovered is compared with what was lost, outside
//! the time measured.

use std::hint::black_box;
use std::time::{Duration, Instant};

use codec::Random;
use codec::gf256::Kernel;
use codec::rlnc::{Decoder, encode};
use rand_core::RngCore;

use crate::report::Report;

const PACKET_BYTES: usize = 1400;
/// Packets of a window, and how many of them are lost.
const WINDOWS: [(usize, &[usize]); 3] = [(2, &[1]), (10, &[1, 3]), (32, &[1, 8])];
/// Coded packets that are made between two looks at the clock.
const BATCH: usize = 64;

/// Where rlnc's coefficients come from: no dearer than ours.
struct Coefficients(Random);

impl RngCore for Coefficients {
    fn next_u32(&mut self) -> u32 {
        self.0.bits()
    }

    fn next_u64(&mut self) -> u64 {
        self.0.next()
    }

    fn fill_bytes(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            chunk.copy_from_slice(&self.0.next().to_le_bytes()[..chunk.len()]);
        }
    }
}

/// What a window took: all of it, and of that the part from the first coded packet on.
#[derive(Clone, Copy)]
struct Took {
    whole: Duration,
    repair: Duration,
}

struct Window {
    packets: Vec<Vec<u8>>,
    kernel: Kernel,
    seed: u8,
    /// The number of the next window's first packet.
    first: u64,
    decoder: Decoder,
    peer: rlnc::full::Encoder,
    coefficients: Coefficients,
    coded: Vec<Vec<u8>>,
}

impl Window {
    fn new(packets: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let packets: Vec<Vec<u8>> =
            (0..packets).map(|_| (0..PACKET_BYTES).map(|_| random.next() as u8).collect()).collect();
        // The last byte is rlnc's own.
        let mut data = packets.concat();
        data.pop();
        let peer = rlnc::full::Encoder::new(data, packets.len()).expect("there is something");
        assert_eq!(peer.get_piece_byte_len(), PACKET_BYTES);
        let coded = vec![vec![0; peer.get_full_coded_piece_byte_len()]; packets.len()];
        Window {
            packets,
            kernel: Kernel::best(),
            seed: 0,
            first: 0,
            decoder: Decoder::new(0),
            peer,
            coefficients: Coefficients(random),
            coded,
        }
    }

    fn next_coded(&mut self) -> (u8, Vec<u8>) {
        self.seed = self.seed.wrapping_add(1);
        let mut out = Vec::new();
        encode(&self.kernel, self.first, self.packets.iter().map(Vec::as_slice), self.seed, &mut out);
        (self.seed, out)
    }

    fn encode(&mut self) -> Duration {
        let start = Instant::now();
        for _ in 0..BATCH {
            black_box(self.next_coded());
        }
        start.elapsed() / BATCH as u32
    }

    fn encode_by_peer(&mut self) -> Duration {
        let start = Instant::now();
        for _ in 0..BATCH {
            self.peer.code_with_buf(&mut self.coefficients, &mut self.coded[0]).expect("it is long enough");
            black_box(&self.coded);
        }
        start.elapsed() / BATCH as u32
    }

    fn decode(&mut self, lost: usize) -> Took {
        let coded: Vec<(u8, Vec<u8>)> = (0..lost).map(|_| self.next_coded()).collect();
        let mut recovered = Vec::new();
        let start = Instant::now();
        self.decoder.forget_below(self.first);
        for (number, packet) in (self.first..).zip(&self.packets).skip(lost) {
            self.decoder.on_packet(number, packet, &mut recovered);
        }
        let middle = Instant::now();
        for (seed, bytes) in &coded {
            let taken = self.decoder.on_coded(self.first, self.packets.len(), *seed, bytes, &mut recovered);
            black_box(taken).expect("it is of this window");
        }
        let end = Instant::now();
        recovered.sort_by_key(|one| one.number);
        assert!(recovered.iter().map(|one| &one.bytes).eq(&self.packets[..lost]));
        self.first += self.packets.len() as u64;
        Took { whole: end - start, repair: end - middle }
    }

    fn decode_by_peer(&mut self, lost: usize) -> Took {
        let count = self.packets.len();
        for coded in &mut self.coded[..lost] {
            self.peer.code_with_buf(&mut self.coefficients, coded).expect("it is long enough");
        }
        // What comes by itself is to it a coded packet with one coefficient. The last one ends with its own byte.
        let mut data = self.packets.concat();
        let marker = data.len() - 1;
        data[marker] = 0x81;
        for (at, coded) in self.coded.iter_mut().enumerate().skip(lost) {
            coded[..count].fill(0);
            coded[at] = 1;
            coded[count..].copy_from_slice(&data[at * PACKET_BYTES..][..PACKET_BYTES]);
        }
        let start = Instant::now();
        let mut decoder = rlnc::full::Decoder::new(PACKET_BYTES, count).expect("there is something");
        for coded in &self.coded[lost..] {
            decoder.decode(coded).expect("it is new");
        }
        let middle = Instant::now();
        for coded in &self.coded[..lost] {
            // Now and then one says nothing new, as coefficients are random; it has to wait for another.
            let mut taken = decoder.decode(coded);
            while taken.is_err() {
                taken = decoder.decode(&self.peer.code(&mut self.coefficients));
            }
        }
        let all = decoder.get_decoded_data().expect("all has come");
        let end = Instant::now();
        assert!(all == data[..marker]);
        Took { whole: end - start, repair: end - middle }
    }
}

/// Measures ours and rlnc's in turns.
pub fn measure(turns: usize, seed: u64, report: &mut Report) {
    report.text("gf256_kernel", Kernel::best().name());
    report.figure("packet_bytes", PACKET_BYTES as f64);
    for (packets, losses) in WINDOWS {
        let mut window = Window::new(packets, seed);
        let bytes = (packets * PACKET_BYTES) as f64;
        let times = in_turns(turns, &mut window, Window::encode, Window::encode_by_peer);
        tell(report, "encode", &format!("w{packets}"), times, 1, bytes);
        for &lost in losses {
            let case = format!("w{packets}_lost{lost}");
            let took = |by: fn(&mut Window, usize) -> Took| move |window: &mut Window| by(window, lost);
            let ours = took(Window::decode);
            let peers = took(Window::decode_by_peer);
            let whole = in_turns(turns, &mut window, |w| ours(w).whole, |w| peers(w).whole);
            tell(report, "decode", &case, whole, lost, bytes);
            let repair = in_turns(turns, &mut window, |w| ours(w).repair, |w| peers(w).repair);
            tell(report, "repair", &case, repair, lost, bytes);
        }
    }
}

/// The medians of ours and of the peer's.
fn in_turns(
    turns: usize,
    window: &mut Window,
    mut ours: impl FnMut(&mut Window) -> Duration,
    mut peers: impl FnMut(&mut Window) -> Duration,
) -> [Duration; 2] {
    let mut times: [Vec<Duration>; 2] = Default::default();
    for _ in 0..turns {
        // The first finds the caches full of another's data.
        times[0].extend((0..crate::speed::TURN).map(|_| ours(window)).skip(1));
        times[1].extend((0..crate::speed::TURN).map(|_| peers(window)).skip(1));
    }
    times.map(crate::speed::median)
}

/// Notes what it takes for each coded packet, and 10^9 bytes of a window per second.
fn tell(report: &mut Report, what: &str, case: &str, times: [Duration; 2], coded: usize, bytes: f64) {
    let [ours, peers] = times.map(|time| time.as_secs_f64());
    for (prefix, time) in [("rlnc", ours), ("rlnc_crate", peers)] {
        report.figure(&format!("{prefix}_{what}_ns_{case}"), time * 1e9 / coded as f64);
        report.figure(&format!("{prefix}_{what}_gb_s_{case}"), bytes / time / 1e9);
    }
    report.figure(&format!("rlnc_{what}_ratio_vs_rlnc_crate_{case}"), peers / ours);
}
