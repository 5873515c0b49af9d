//! Whatever a host or a switch sends, or a peer says it has carried: packets of IP come out as they went in, but for what TCP does not see, and
//! frames but for marks.
#![no_main]

use std::net::IpAddr;

use libfuzzer_sys::fuzz_target;
use weir_proto::acc::packet::{Look, Pair, checksum, flow_of, restore, restore_frame};
use weir_proto::ecn::Codepoint;

/// Headers of IP and of TCP, with options.
const MOST_HEADERS: usize = 60 + 60;
const IPV6_BYTES: usize = 40;

/// What is to come of a packet, of which the headers of IP are left out on the way, perhaps, and the network sets a mark. The checksum
/// is that of `came` if it may be another one.
fn expected(packet: &[u8], left_out: bool, marked: bool, came: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    let length = packet.len();
    let is_ipv4 = packet[0] >> 4 == 4;
    if left_out && is_ipv4 {
        packet[2..4].copy_from_slice(&(length as u16).to_be_bytes());
        packet[4..6].fill(0);
    } else if left_out {
        packet[1] &= 0xf0;
        packet[2..4].fill(0);
        packet[4..6].copy_from_slice(&((length - IPV6_BYTES) as u16).to_be_bytes());
    }
    if marked {
        packet[1] |= if is_ipv4 { 3 } else { 3 << 4 };
    }
    if is_ipv4 && (left_out || marked) {
        packet[10..12].copy_from_slice(&came[10..12]);
        let header = usize::from(packet[0] & 0xf) * 4;
        assert!(came.len() < header || checksum(&came[..header]) == 0xffff, "a wrong checksum");
    }
    packet
}

fuzz_target!(|bytes: &[u8]| {
    let Some((flags, packet)) = bytes.split_first() else { return };
    let ecn = Codepoint::from_bits(*flags);
    let mut packet = packet.to_vec();
    if flags & 0x80 != 0 {
        // As if TCP's header had no options.
        packet.resize(packet.len().max(MOST_HEADERS), 0x50);
    }
    let packet = &packet[..];
    if let Ok(look) = Look::at(packet) {
        let cut = packet.len().min(MOST_HEADERS + usize::from(flags >> 2));
        let mut carried = Vec::new();
        look.carry(&packet[..cut], &packet[cut..], &mut carried);
        assert_eq!(carried.len(), look.carried_bytes(packet.len()));
        let there = Pair { local: look.pair.remote, remote: look.pair.local };
        assert_eq!(flow_of(&there, &carried), look.flow);
        let mut came = Vec::new();
        restore(&there, ecn, &carried, &mut came).expect("it was carried");
        let marked = ecn.is_ce() && look.ecn.is_capable();
        let left_out = carried.len() < packet.len();
        assert_eq!(came, expected(packet, left_out, marked, &came));
        let again = Look::at(&came).expect("it is a packet still");
        assert_eq!((again.pair, again.flow, again.matters), (look.pair, look.flow, look.matters));
        assert_eq!(again.ecn, if marked { Codepoint::Ce } else { look.ecn });
    }
    let ends = Pair { local: [192, 0, 2, 1].into(), remote: [192, 0, 2, 2].into() };
    if let Ok(look) = Look::at_frame(ends, packet) {
        let mut carried = Vec::new();
        look.carry(packet, &[], &mut carried);
        assert_eq!((carried.len(), look.pair), (look.carried_bytes(packet.len()), ends));
        assert_eq!(flow_of(&ends, &carried), look.flow);
        assert!(restore(&ends, ecn, &carried, &mut Vec::new()).is_err(), "a frame is no packet of a host");
        let mut came = Vec::new();
        restore_frame(ecn, &carried, &mut came).expect("it was carried");
        let again = Look::at_frame(ends, &came).expect("it is a frame still");
        assert_eq!((again.flow, again.matters), (look.flow, look.matters));
        // A mark, and the checksum over it.
        assert!(came == packet || ecn.is_ce() && came.iter().zip(packet).filter(|(a, b)| a != b).count() <= 3);
    }
    let mut came = vec![7; 3];
    let _ = restore_frame(ecn, packet, &mut came);
    assert_eq!(came[..3], [7; 3]);
    let hosts: [(IpAddr, IpAddr); 2] =
        [([10, 0, 0, 1].into(), [10, 0, 0, 2].into()), ([0xfd; 16].into(), [0xfe; 16].into())];
    for (local, remote) in hosts {
        let pair = Pair { local, remote };
        let mut came = vec![7; 3];
        let restored = restore(&pair, ecn, packet, &mut came);
        assert_eq!(came[..3], [7; 3]);
        let flow = flow_of(&pair, packet);
        if restored.is_ok() {
            // Nobody sends in the name of others.
            let look = Look::at(&came[3..]).expect("it is a packet");
            assert_eq!(look.pair, Pair { local: remote, remote: local });
            assert!(look.flow.is_none() || look.flow == flow);
        }
    }
});
