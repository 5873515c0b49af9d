//! A decoder of windows whatever it is given: it holds no more than it says, and what it recovers of genuine packets is what was sent.
#![no_main]

use codec::gf256::Kernel;
use codec::rlnc::{Decoder, MAX_PACKETS, encode};
use libfuzzer_sys::fuzz_target;
use weir_fuzz::Bytes;

/// 64 packets and as many equations, of up to 257 bytes each and their coefficients, in vectors that may have twice the room.
const MOST_BYTES: usize = 2 * 64 * (257 + 257 + 64);

/// The packet of a number.
fn packet(number: u64) -> Vec<u8> {
    (0..number.wrapping_mul(37) % 101).map(|at| number.wrapping_add(at * 31) as u8).collect()
}

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = Bytes(bytes);
    let first = bytes.number(8);
    let mut decoder = Decoder::new(first);
    let (mut genuine, mut recovered) = (true, Vec::new());
    while !bytes.is_empty() {
        let what = bytes.byte();
        let near = first.saturating_add(bytes.byte().into());
        let seed = bytes.byte();
        match what {
            0..90 => decoder.on_packet(near, &packet(near), &mut recovered),
            90..180 => {
                let count = 1 + usize::from(what) % MAX_PACKETS;
                let Some(end) = near.checked_add(count as u64) else { continue };
                let packets: Vec<Vec<u8>> = (near..end).map(packet).collect();
                let mut coded = Vec::new();
                encode(&Kernel::best(), near, packets.iter().map(Vec::as_slice), seed, &mut coded);
                let taken = decoder.on_coded(near, count, seed, &coded, &mut recovered);
                assert!(!genuine || matches!(taken, Ok(()) | Err(codec::rlnc::Refused::Forgotten)), "{taken:?}");
            }
            180..200 => decoder.forget_below(near),
            // Anything.
            200..220 => {
                genuine = false;
                decoder.on_packet(bytes.number(8), &bytes.some(), &mut recovered);
            }
            220..240 => {
                genuine = false;
                let _ = decoder.on_coded(near, seed.into(), bytes.byte(), &bytes.some(), &mut recovered);
            }
            _ => {
                genuine = false;
                let count = bytes.byte().into();
                let _ = decoder.on_coded(bytes.number(8), count, seed, &bytes.some(), &mut recovered);
            }
        }
        assert!(decoder.held_bytes() <= MOST_BYTES, "{} bytes", decoder.held_bytes());
        for one in recovered.drain(..) {
            assert!(!genuine || one.bytes == packet(one.number), "packet {} is another", one.number);
        }
    }
});
