//! The packets of a host, and how they are carried: without what the datagram around them tells anyway.
//!
//! ```text
//! carried   0 | the packet
//!           1 | a frame of Ethernet
//!           4 | time to live 8 | traffic class 8 | what follows on its header of IPv4
//!           6 | hop limit 8    | traffic class 8 | what follows on its header of IPv6
//! ```
//! Headers of IP are left out of TCP's packets between the two addresses of the datagram, unless they have options or are fragments. That is all
//! but a few; 20 or 40 bytes of each are won. The flow label of IPv6 is not carried: it is the network's, and TCP does not see it.
//!
//! Frames are what goes over a link between two switches: whole, whoever they are from, as the hosts behind the switches are others than the two
//! that the datagrams go between. A host's layer takes none, and a link's nothing else.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use thiserror::Error;

use crate::ecn::Codepoint;

const WHOLE: u8 = 0;
const FRAME: u8 = 1;
const IPV4: u8 = 4;
const IPV6: u8 = 6;
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
/// Bytes of a frame's two addresses, and of its type behind them.
pub const ETHERNET_BYTES: usize = 14;
const TAG_BYTES: usize = 4;
const VLANS: [u16; 2] = [0x8100, 0x88a8];
const ETHERTYPES: [(u16, u8); 2] = [(0x0800, 4), (0x86dd, 6)];
/// Bytes in front of what follows on a header that is left out.
pub const FORM_BYTES: usize = 3;
const TCP: u8 = 6;
const TCP_BYTES: usize = 20;
const DONT_FRAGMENT: u16 = 0x4000;
const FIN_SYN: u8 = 3;

/// Two hosts, as one of them sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pair {
    /// This one.
    pub local: IpAddr,
    /// The other one.
    pub remote: IpAddr,
}

/// One direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// Who sends.
    pub from: (IpAddr, u16),
    /// To whom.
    pub to: (IpAddr, u16),
}

impl FlowKey {
    /// The other direction.
    #[must_use]
    pub fn reversed(self) -> Self {
        FlowKey { from: self.to, to: self.from }
    }
}

/// No packet of IP, or not one of the two hosts.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("no packet of IP between the two hosts")]
pub struct NotIp;

/// What a packet is carried as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Whole,
    Frame,
    /// Without its header of IP, of so many bytes.
    Headless(usize),
}

/// What a packet says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Between whom it goes, or, of a frame, the ends of its link.
    pub pair: Pair,
    /// The direction of a connection that it is part of, if it is TCP's.
    pub flow: Option<FlowKey>,
    /// Whether TCP sends it again if it is lost: it has data, or begins or ends a connection. Data that is not looked at is not known of.
    pub matters: bool,
    /// Its mark.
    pub ecn: Codepoint,
    form: Form,
    hops: u8,
    class: u8,
}

impl Look {
    /// Looks at a packet.
    ///
    /// # Errors
    /// [`NotIp`]: it is none, or its header is cut off.
    pub fn at(packet: &[u8]) -> Result<Look, NotIp> {
        match packet.first().ok_or(NotIp)? >> 4 {
            4 => at_ipv4(packet).ok_or(NotIp),
            6 => at_ipv6(packet).ok_or(NotIp),
            _ => Err(NotIp),
        }
    }

    /// Looks at a frame of Ethernet that is to go over the link between `ends`. If that is not TCP's, it is of no flow.
    ///
    /// # Errors
    /// [`NotIp`]: its header is cut off.
    pub fn at_frame(ends: Pair, frame: &[u8]) -> Result<Look, NotIp> {
        let inside = &frame[inside(frame)?..];
        let other = Look {
            pair: ends,
            flow: None,
            matters: false,
            ecn: Codepoint::NotEct,
            form: Form::Frame,
            hops: 0,
            class: 0,
        };
        // Of a short frame, what follows on its packet is padding.
        let look = ip_bytes(inside).and_then(|bytes| Look::at(inside.get(..bytes)?).ok());
        Ok(look.map_or(other, |look| Look { pair: ends, form: Form::Frame, ..look }))
    }

    /// Bytes of the packet's carried form, of which the packet has `len`.
    pub fn carried_bytes(&self, len: usize) -> usize {
        match self.form {
            Form::Whole | Form::Frame => 1 + len,
            Form::Headless(header) => FORM_BYTES + len - header,
        }
    }

    /// Appends what the packet is carried as; it may be given in two parts, the first of which has its headers.
    pub fn carry(&self, head: &[u8], rest: &[u8], out: &mut Vec<u8>) {
        match self.form {
            Form::Headless(header) => {
                let form = if header == IPV4_BYTES { IPV4 } else { IPV6 };
                out.extend([form, self.hops, self.class]);
                out.extend_from_slice(&head[header..]);
            }
            Form::Whole | Form::Frame => {
                out.push(if self.form == Form::Frame { FRAME } else { WHOLE });
                out.extend_from_slice(head);
            }
        }
        out.extend_from_slice(rest);
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn ipv4_at(bytes: &[u8], at: usize) -> Option<IpAddr> {
    Some(Ipv4Addr::from(*bytes.get(at..)?.first_chunk::<4>()?).into())
}

fn ipv6_at(bytes: &[u8], at: usize) -> Option<IpAddr> {
    Some(Ipv6Addr::from(*bytes.get(at..)?.first_chunk::<16>()?).into())
}

/// Where what a frame carries begins, which is its end if that is not IP.
fn inside(frame: &[u8]) -> Result<usize, NotIp> {
    let mut at = ETHERNET_BYTES;
    while VLANS.contains(&u16_at(frame, at - 2).ok_or(NotIp)?) {
        at += TAG_BYTES;
    }
    let ethertype = u16_at(frame, at - 2);
    let version =
        ETHERTYPES.iter().find(|(number, _)| Some(*number) == ethertype).map(|(_, version)| *version);
    let is_ip = version.is_some() && frame.get(at).map(|first| first >> 4) == version;
    Ok(if is_ip { at } else { frame.len() })
}

/// Bytes of a packet of IP, as it says itself.
fn ip_bytes(packet: &[u8]) -> Option<usize> {
    match packet.first()? >> 4 {
        4 => u16_at(packet, 2).map(usize::from),
        _ => u16_at(packet, 4).map(|bytes| IPV6_BYTES + usize::from(bytes)),
    }
}

/// Ports, and whether TCP would send it again, of a segment that is whole.
fn segment(segment: &[u8]) -> Option<([u16; 2], bool)> {
    let header = usize::from(segment.get(12)? >> 4) * 4;
    let ports = [u16_at(segment, 0)?, u16_at(segment, 2)?];
    (header >= TCP_BYTES && header <= segment.len())
        .then(|| (ports, segment.len() > header || segment[13] & FIN_SYN != 0))
}

fn at_ipv4(packet: &[u8]) -> Option<Look> {
    let header = usize::from(packet[0] & 0xf) * 4;
    if header < IPV4_BYTES {
        return None;
    }
    let (fragment, has_options) = (u16_at(packet, 6)?, header > IPV4_BYTES);
    let pair = Pair { local: ipv4_at(packet, 12)?, remote: ipv4_at(packet, 16)? };
    let transport = packet.get(header..)?;
    let is_whole = fragment & !DONT_FRAGMENT == 0;
    let tcp = if packet[9] == TCP && is_whole { segment(transport) } else { None };
    // Fragments need their number, and options are rare.
    let headless = tcp.is_some() && fragment == DONT_FRAGMENT && !has_options;
    let form = if headless { Form::Headless(IPV4_BYTES) } else { Form::Whole };
    Some(look(pair, tcp, form, packet[8], packet[1]))
}

fn at_ipv6(packet: &[u8]) -> Option<Look> {
    let pair = Pair { local: ipv6_at(packet, 8)?, remote: ipv6_at(packet, 24)? };
    let transport = packet.get(IPV6_BYTES..)?;
    let class = (u16_at(packet, 0)? >> 4) as u8;
    let tcp = if packet[6] == TCP { segment(transport) } else { None };
    let form = if tcp.is_some() { Form::Headless(IPV6_BYTES) } else { Form::Whole };
    Some(look(pair, tcp, form, packet[7], class))
}

fn look(pair: Pair, tcp: Option<([u16; 2], bool)>, form: Form, hops: u8, class: u8) -> Look {
    let key = |[from, to]: [u16; 2]| FlowKey { from: (pair.local, from), to: (pair.remote, to) };
    Look {
        pair,
        flow: tcp.map(|(ports, _)| key(ports)),
        matters: tcp.is_some_and(|(_, matters)| matters),
        ecn: Codepoint::from_bits(class),
        form,
        hops,
        class,
    }
}

/// The flow of a carried packet that has come over `pair`.
pub fn flow_of(pair: &Pair, carried: &[u8]) -> Option<FlowKey> {
    match carried.split_first()? {
        (&WHOLE, packet) => Look::at(packet).ok()?.flow,
        (&FRAME, frame) => Look::at_frame(*pair, frame).ok()?.flow,
        (_, rest) => {
            let ports = (u16_at(rest, FORM_BYTES - 1)?, u16_at(rest, FORM_BYTES + 1)?);
            Some(FlowKey { from: (pair.remote, ports.0), to: (pair.local, ports.1) })
        }
    }
}

/// Appends the packet that was carried over `pair` in a datagram with the mark `ecn`, which it takes over if the network has set it (RFC
/// 6040, section 4.2).
///
/// # Errors
/// [`NotIp`]: nothing of the kind was carried.
pub fn restore(pair: &Pair, ecn: Codepoint, carried: &[u8], out: &mut Vec<u8>) -> Result<(), NotIp> {
    let begin = out.len();
    match (carried, pair.remote, pair.local) {
        ([WHOLE, packet @ ..], ..) => {
            let look = Look::at(packet)?;
            if (look.pair.local, look.pair.remote) != (pair.remote, pair.local) {
                // Whoever has the key could send in anybody's name.
                return Err(NotIp);
            }
            out.extend_from_slice(packet);
            if ecn.is_ce() && look.ecn.is_capable() {
                mark(&mut out[begin..]);
            }
        }
        ([IPV4, hops, class, rest @ ..], IpAddr::V4(from), IpAddr::V4(to)) => {
            let length = u16::try_from(IPV4_BYTES + rest.len()).map_err(|_| NotIp)?;
            let [a, b] = length.to_be_bytes();
            let [fragment, _] = DONT_FRAGMENT.to_be_bytes();
            out.extend([0x45, marked(*class, ecn), a, b, 0, 0, fragment, 0, *hops, TCP, 0, 0]);
            out.extend(from.octets());
            out.extend(to.octets());
            let sum = !checksum(&out[begin..]);
            out[begin + 10..begin + 12].copy_from_slice(&sum.to_be_bytes());
            out.extend_from_slice(rest);
        }
        ([IPV6, hops, class, rest @ ..], IpAddr::V6(from), IpAddr::V6(to)) => {
            let [a, b] = u16::try_from(rest.len()).map_err(|_| NotIp)?.to_be_bytes();
            let class = marked(*class, ecn);
            out.extend([0x60 | class >> 4, class << 4, 0, 0, a, b, TCP, *hops]);
            out.extend(from.octets());
            out.extend(to.octets());
            out.extend_from_slice(rest);
        }
        _ => return Err(NotIp),
    }
    Ok(())
}

/// Appends the frame that was carried over a link in a datagram with the mark `ecn`, which the packet in it takes over as in [`restore`].
///
/// # Errors
/// [`NotIp`]: no frame was carried.
pub fn restore_frame(ecn: Codepoint, carried: &[u8], out: &mut Vec<u8>) -> Result<(), NotIp> {
    let [FRAME, frame @ ..] = carried else { return Err(NotIp) };
    let at = out.len() + inside(frame)?;
    out.extend_from_slice(frame);
    if ecn.is_ce() && Look::at(&out[at..]).is_ok_and(|look| look.ecn.is_capable()) {
        mark(&mut out[at..]);
    }
    Ok(())
}

/// A traffic class with the network's mark, if that may be set.
fn marked(class: u8, ecn: Codepoint) -> u8 {
    if ecn.is_ce() && Codepoint::from_bits(class).is_capable() { class | Codepoint::Ce as u8 } else { class }
}

/// Sets the mark of a whole packet.
fn mark(packet: &mut [u8]) {
    if packet[0] >> 4 == 4 {
        packet[1] |= Codepoint::Ce as u8;
        packet[10..12].fill(0);
        let header = (usize::from(packet[0] & 0xf) * 4).min(packet.len());
        let sum = !checksum(&packet[..header]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    } else {
        packet[1] |= (Codepoint::Ce as u8) << 4;
    }
}

/// The sum of what is covered by a checksum of the Internet (RFC 1071), not inverted.
pub fn checksum(bytes: &[u8]) -> u16 {
    let (pairs, last) = bytes.as_chunks::<2>();
    let sum: u64 = pairs.iter().map(|pair| u64::from(u16::from_be_bytes(*pair))).sum();
    let mut sum = sum + last.first().map_or(0, |byte| u64::from(*byte) << 8);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A segment of TCP from port 1000 to port 2000.
    fn tcp(flags: u8, data: &[u8]) -> Vec<u8> {
        let mut segment = vec![3, 232, 7, 208, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 1, 1, 7, 7, 0, 0];
        segment.extend_from_slice(data);
        segment
    }

    fn ipv4(class: u8, transport: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, class, 0, 20 + transport.len() as u8, 0, 0, 0x40, 0, 61, 6, 0, 0];
        packet.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        let sum = !checksum(&packet);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet.extend_from_slice(transport);
        packet
    }

    fn ipv6(class: u8, transport: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60 | class >> 4, class << 4, 0, 0, 0, transport.len() as u8, 6, 61];
        packet.extend([[0xfd; 16], [0xfe; 16]].concat());
        packet.extend_from_slice(transport);
        packet
    }

    /// What comes out at the other end, with the flow that it is of there.
    fn across(packet: &[u8], ecn: Codepoint) -> (Vec<u8>, Option<FlowKey>, usize) {
        let look = Look::at(packet).unwrap();
        let mut carried = Vec::new();
        let head = packet.len().min(60);
        look.carry(&packet[..head], &packet[head..], &mut carried);
        assert_eq!(carried.len(), look.carried_bytes(packet.len()));
        let there = Pair { local: look.pair.remote, remote: look.pair.local };
        let mut out = vec![1, 2];
        restore(&there, ecn, &carried, &mut out).unwrap();
        assert_eq!(out[..2], [1, 2]);
        (out.split_off(2), flow_of(&there, &carried), carried.len())
    }

    #[test]
    fn packets_come_out_as_they_went_in_and_shorter_in_between() {
        for (packet, spared) in [(ipv4(0, &tcp(0x18, &[9; 70])), 17), (ipv6(0, &tcp(0x10, &[9; 70])), 37)] {
            let (out, flow, carried) = across(&packet, Codepoint::NotEct);
            assert_eq!((&out, packet.len() - carried), (&packet, spared));
            let look = Look::at(&packet).unwrap();
            assert_eq!(flow, look.flow);
            assert_eq!(look.flow.map(|flow| (flow.from.1, flow.to.1)), Some((1000, 2000)));
            assert!(look.matters);
        }
    }

    #[test]
    fn what_is_no_usual_packet_of_tcp_is_carried_whole() {
        let mut udp = ipv4(0, &[7; 30]);
        udp[9] = 17;
        let mut fragment = ipv4(0, &tcp(0x10, &[9; 70]));
        fragment[6] = 0x20;
        let mut may_be_cut = ipv4(0, &tcp(0x10, &[9; 70]));
        may_be_cut[6] = 0;
        for packet in [udp, fragment, may_be_cut] {
            let (out, _, carried) = across(&packet, Codepoint::NotEct);
            assert_eq!((out, carried), (packet.clone(), packet.len() + 1));
        }
    }

    #[test]
    fn packets_of_others_and_those_with_half_a_header_are_none() {
        let mut short = ipv4(0, &tcp(0x10, b"x"));
        short[0] = 0x44;
        assert_eq!(Look::at(&short), Err(NotIp));
        let mut udp = ipv4(0, &[7; 30]);
        udp[9] = 17;
        let carried = [&[WHOLE], &udp[..]].concat();
        let pair = Pair { local: [10, 0, 0, 2].into(), remote: [10, 0, 0, 1].into() };
        let mut out = Vec::new();
        assert_eq!(restore(&pair, Codepoint::NotEct, &carried, &mut out), Ok(()));
        for (local, remote) in [(pair.remote, pair.local), (pair.local, [10, 0, 0, 3].into())] {
            assert_eq!(restore(&Pair { local, remote }, Codepoint::NotEct, &carried, &mut out), Err(NotIp));
        }
        assert_eq!(out, udp);
    }

    /// A frame with so many tags of VLANs around a packet, and padding behind it.
    fn frame(vlans: usize, ethertype: [u8; 2], packet: &[u8], padding: usize) -> Vec<u8> {
        let mut frame = vec![2; 12];
        for _ in 0..vlans {
            frame.extend([0x81, 0, 0, 7]);
        }
        frame.extend(ethertype);
        frame.extend_from_slice(packet);
        frame.extend(vec![0; padding]);
        frame
    }

    const ENDS: Pair = Pair {
        local: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        remote: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)),
    };

    #[test]
    fn frames_come_out_as_they_went_in_whoever_they_are_from() {
        let acknowledgement = ipv4(0, &tcp(0x10, b""));
        for (frame, flow, matters) in [
            (frame(0, [8, 0], &ipv4(0, &tcp(0x18, b"x")), 0), true, true),
            (frame(2, [8, 0], &ipv4(0, &tcp(0x18, b"x")), 0), true, true),
            (frame(1, [0x86, 0xdd], &ipv6(0, &tcp(0x18, b"x")), 0), true, true),
            (frame(0, [8, 0], &acknowledgement, 6), true, false),
            (frame(0, [8, 6], &acknowledgement, 0), false, false),
            (frame(0, [0x86, 0xdd], &acknowledgement, 0), false, false),
        ] {
            let look = Look::at_frame(ENDS, &frame).unwrap();
            assert_eq!((look.pair, look.flow.is_some(), look.matters), (ENDS, flow, matters), "{frame:?}");
            let (mut carried, mut out) = (Vec::new(), Vec::new());
            look.carry(&frame, &[], &mut carried);
            assert_eq!(carried.len(), look.carried_bytes(frame.len()));
            assert_eq!(flow_of(&ENDS, &carried), look.flow);
            restore_frame(Codepoint::NotEct, &carried, &mut out).unwrap();
            assert_eq!(out, frame);
            assert_eq!(restore(&ENDS, Codepoint::NotEct, &carried, &mut out), Err(NotIp));
        }
        assert_eq!(Look::at_frame(ENDS, &[2; 13]), Err(NotIp));
        assert_eq!(Look::at_frame(ENDS, &frame(3, [0x81, 0], &[], 0)[..26]), Err(NotIp));
        assert_eq!(restore_frame(Codepoint::NotEct, &[WHOLE, 0x45], &mut Vec::new()), Err(NotIp));
    }

    #[test]
    fn marks_reach_the_packets_in_frames() {
        let of = |class| frame(1, [8, 0], &ipv4(class, &tcp(0x10, b"x")), 0);
        for (class, expected) in [(2, 3), (0, 0)] {
            let (mut carried, mut out) = (Vec::new(), vec![9; 5]);
            Look::at_frame(ENDS, &of(class)).unwrap().carry(&of(class), &[], &mut carried);
            restore_frame(Codepoint::Ce, &carried, &mut out).unwrap();
            assert_eq!(out[5..], of(expected));
        }
    }

    #[test]
    fn acknowledgements_alone_do_not_matter_and_beginnings_and_ends_do() {
        for (flags, data, matters) in
            [(0x10, &b""[..], false), (0x10, b"x", true), (2, b"", true), (0x11, b"", true), (4, b"", false)]
        {
            assert_eq!(Look::at(&ipv4(0, &tcp(flags, data))).unwrap().matters, matters, "{flags}");
        }
    }

    #[test]
    fn marks_of_the_network_reach_who_asked_for_them() {
        for make in [ipv4 as fn(u8, &[u8]) -> Vec<u8>, ipv6] {
            for (class, ecn, expected) in [
                (0x2a, Codepoint::Ce, 0x2b),
                (0x2a, Codepoint::Ect0, 0x2a),
                (0x28, Codepoint::Ce, 0x28),
                (0x03, Codepoint::Ect0, 0x03),
            ] {
                assert_eq!(across(&make(class, &tcp(0x10, b"x")), ecn).0, make(expected, &tcp(0x10, b"x")));
            }
        }
        let mut whole = ipv4(2, &[7; 30]);
        let mut marked = ipv4(3, &[7; 30]);
        for packet in [&mut whole, &mut marked] {
            packet[9] = 17;
            packet[10..12].fill(0);
            let sum = !checksum(&packet[..20]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        assert_eq!(across(&whole, Codepoint::Ce).0, marked);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn whatever_is_no_packet_breaks_nothing(mut bytes in proptest::collection::vec(any::<u8>(), 0..90), version in any::<u8>()) {
            if let Some(first) = bytes.first_mut() {
                *first = version << 4 | *first & 0xf;
            }
            if let Ok(look) = Look::at(&bytes) {
                prop_assert_eq!(across(&bytes, Codepoint::Ce).2, look.carried_bytes(bytes.len()));
            }
            let pair = Pair { local: [10, 0, 0, 1].into(), remote: [10, 0, 0, 2].into() };
            let mut out = Vec::new();
            let _ = restore(&pair, Codepoint::Ce, &bytes, &mut out);
            let _ = restore_frame(Codepoint::Ce, &bytes, &mut out);
            let _ = Look::at_frame(pair, &bytes);
            let _ = flow_of(&pair, &bytes);
        }
    }
}
