//! Long packets of TCP, as a host makes them for a device that cuts them apart, and puts together what comes in pieces.
//!
//! Each packet to or from the device has a header in front (struct `virtio_net_hdr`, VIRTIO 1.2, section 5.1.6) that tells how it is to
//! be cut, and which checksum is still to be computed. Checksums of TCP are never computed here: datagrams have tags, which are better, and what is
//! given to the device is marked as to be summed up, should it ever go to a wire.

use proto::acc::packet::checksum;

/// Bytes of the header in front of a packet.
pub(crate) const HEADER_BYTES: usize = 10;
/// Bytes of a packet with it, at most.
pub(crate) const MOST_BYTES: usize = HEADER_BYTES + 65_535;

const NEEDS_CHECKSUM: u8 = 1;
const WHOLE: u8 = 0;
const TCP_IPV4: u8 = 1;
const TCP_IPV6: u8 = 4;
const ECN: u8 = 0x80;

const TCP: u8 = 6;
const IPV6_BYTES: usize = 40;
const TCP_CHECKSUM: usize = 16;
const FIN: u8 = 1;
const PSH: u8 = 8;
const ACK: u8 = 16;
const CWR: u8 = 128;
/// Headers of IP and of TCP, with options.
const MOST_HEADERS: usize = 60 + 60;

/// What a device has said that is none of its packets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Nonsense;

fn u16_ne(bytes: &[u8], at: usize) -> usize {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]]).into()
}

/// Where TCP's header begins, and where its data does, of a packet that is no fragment.
fn tcp_of(packet: &[u8]) -> Option<(usize, usize)> {
    let transport = match packet.first()? >> 4 {
        4 if *packet.get(9)? == TCP && packet[6] & 0x3f == 0 && packet[7] == 0 => {
            usize::from(packet[0] & 0xf) * 4
        }
        6 if *packet.get(6)? == TCP => IPV6_BYTES,
        _ => return None,
    };
    let data = transport + usize::from(packet.get(transport + 12)? >> 4) * 4;
    (transport >= 20 && data >= transport + 20 && data <= packet.len()).then_some((transport, data))
}

/// Sets the lengths of a packet's header of IP, and its checksum.
fn set_length(head: &mut [u8], length: usize, transport: usize) {
    if head[0] >> 4 == 4 {
        head[2..4].copy_from_slice(&(length as u16).to_be_bytes());
        head[10..12].fill(0);
        let sum = !checksum(&head[..transport]);
        head[10..12].copy_from_slice(&sum.to_be_bytes());
    } else {
        head[4..6].copy_from_slice(&((length - IPV6_BYTES) as u16).to_be_bytes());
    }
}

/// The sum of the pseudo header of a segment of so many bytes (RFC 9293, section 3.1).
fn pseudo_sum(packet: &[u8], segment: usize) -> u16 {
    let addresses = if packet[0] >> 4 == 4 { &packet[12..20] } else { &packet[8..IPV6_BYTES] };
    fold(u32::from(checksum(addresses)) + u32::from(TCP) + segment as u32)
}

/// A sum of a few numbers of 16 bits, in 16 bits (RFC 1071).
fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// Gives `each` the packets that were read from a device as one, in two parts: headers and data.
///
/// # Errors
/// [`Nonsense`].
pub(crate) fn split(read: &mut [u8], mut each: impl FnMut(&[u8], &[u8])) -> Result<(), Nonsense> {
    let (header, packet) = read.split_at_mut_checked(HEADER_BYTES).ok_or(Nonsense)?;
    let is_partial = header[0] & NEEDS_CHECKSUM != 0;
    let (kind, size) = (header[1] & !ECN, u16_ne(header, 4));
    let (start, offset) = (u16_ne(header, 6), u16_ne(header, 8));
    let Some((transport, data)) = tcp_of(packet) else {
        if is_partial {
            let at = start + offset;
            let sum = !checksum(packet.get(start..).ok_or(Nonsense)?);
            packet.get_mut(at..at + 2).ok_or(Nonsense)?.copy_from_slice(&sum.to_be_bytes());
        }
        each(packet, &[]);
        return if kind == WHOLE { Ok(()) } else { Err(Nonsense) };
    };
    let segment = packet.len() - transport;
    if !is_partial
        && fold(u32::from(checksum(&packet[transport..])) + u32::from(pseudo_sum(packet, segment))) != 0xffff
    {
        // It was forwarded, and broken before it came here.
        return Err(Nonsense);
    }
    let (head, rest) = packet.split_at_mut(data);
    head[transport + TCP_CHECKSUM..transport + TCP_CHECKSUM + 2].fill(0);
    if kind == WHOLE {
        each(head, rest);
        return Ok(());
    }
    if !matches!(kind, TCP_IPV4 | TCP_IPV6) || size == 0 || data > MOST_HEADERS {
        return Err(Nonsense);
    }
    let flags = head[transport + 13];
    let mut sequence = u32::from_be_bytes([
        head[transport + 4],
        head[transport + 5],
        head[transport + 6],
        head[transport + 7],
    ]);
    let mut pieces = rest.chunks(size).peekable();
    let mut is_first = true;
    while let Some(piece) = pieces.next() {
        let mut flags = flags;
        if pieces.peek().is_some() {
            flags &= !(FIN | PSH);
        }
        if !std::mem::take(&mut is_first) {
            flags &= !CWR;
        }
        head[transport + 13] = flags;
        head[transport + 4..transport + 8].copy_from_slice(&sequence.to_be_bytes());
        set_length(head, data + piece.len(), transport);
        each(head, piece);
        sequence = sequence.wrapping_add(piece.len() as u32);
    }
    Ok(())
}

/// Puts packets of TCP together that follow each other, as far as nothing is lost by that.
pub(crate) struct Joining {
    /// A header for the device, and the packet.
    bytes: Vec<u8>,
    /// Of the packet that is being put together: where TCP's header begins, and its data; and bytes of its pieces.
    tcp: Option<(usize, usize)>,
    piece: usize,
    next: u32,
    pieces: usize,
    /// Nothing may follow.
    closed: bool,
}

impl Joining {
    pub(crate) fn new() -> Self {
        Joining {
            bytes: Vec::with_capacity(MOST_BYTES),
            tcp: None,
            piece: 0,
            next: 0,
            pieces: 0,
            closed: false,
        }
    }

    /// Takes a packet, which `write` appends to what it is given. `out` is given what is complete by that.
    pub(crate) fn add(&mut self, write: impl FnOnce(&mut Vec<u8>), mut out: impl FnMut(&[u8])) {
        let begin = self.bytes.len();
        if begin == 0 {
            self.bytes.resize(HEADER_BYTES, 0);
            write(&mut self.bytes);
            return self.begin(&mut out);
        }
        write(&mut self.bytes);
        if !self.join(begin) {
            let other = self.bytes.split_off(begin);
            self.finish(&mut out);
            self.bytes.resize(HEADER_BYTES, 0);
            self.bytes.extend_from_slice(&other);
            self.begin(&mut out);
        }
    }

    /// Gives out what there is.
    pub(crate) fn finish(&mut self, mut out: impl FnMut(&[u8])) {
        if self.bytes.len() <= HEADER_BYTES {
            return self.bytes.clear();
        }
        self.bytes[..HEADER_BYTES].fill(0);
        if let Some((transport, data)) = self.tcp {
            let (header, packet) = self.bytes.split_at_mut(HEADER_BYTES);
            let (length, kind) = (packet.len(), packet[0] >> 4);
            let sum = pseudo_sum(packet, length - transport);
            let at = transport + TCP_CHECKSUM;
            packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
            header[0] = NEEDS_CHECKSUM;
            header[6..8].copy_from_slice(&(transport as u16).to_ne_bytes());
            header[8..10].copy_from_slice(&(TCP_CHECKSUM as u16).to_ne_bytes());
            if self.pieces > 1 {
                let cwr = packet[transport + 13] & CWR;
                header[1] = if kind == 4 { TCP_IPV4 } else { TCP_IPV6 } | if cwr == 0 { 0 } else { ECN };
                header[2..4].copy_from_slice(&(data as u16).to_ne_bytes());
                header[4..6].copy_from_slice(&(self.piece as u16).to_ne_bytes());
                set_length(packet, length, transport);
            }
        }
        out(&self.bytes);
        self.bytes.clear();
        self.tcp = None;
    }

    /// A packet is there to which others may be added.
    fn begin(&mut self, out: &mut impl FnMut(&[u8])) {
        let packet = &self.bytes[HEADER_BYTES..];
        self.tcp = tcp_of(packet);
        (self.pieces, self.closed) = (1, true);
        if let Some((transport, data)) = self.tcp {
            self.piece = packet.len() - data;
            self.next = sequence(packet, transport).wrapping_add(self.piece as u32);
            self.closed = self.piece == 0 || packet[transport + 13] & !CWR != ACK;
        }
        if self.closed {
            self.finish(out);
        }
    }

    /// Whether the packet at `begin` could be added.
    fn join(&mut self, begin: usize) -> bool {
        let (bytes, other) = self.bytes.split_at(begin);
        let packet = &bytes[HEADER_BYTES..];
        let Some(((transport, data), from)) = self.tcp.zip(tcp_of(other)) else { return false };
        let piece = other.len() - data.min(other.len());
        let flags = *other.get(transport + 13).unwrap_or(&0);
        let fits = !self.closed
            && from == (transport, data)
            && piece > 0
            && piece <= self.piece
            && packet.len() + piece <= 65_535
            && flags & !PSH == ACK
            && sequence(other, transport) == self.next
            && is_alike(&packet[..data], &other[..data], transport);
        if !fits {
            return false;
        }
        self.closed = piece < self.piece || flags & PSH != 0;
        self.bytes[HEADER_BYTES + transport + 13] |= flags & PSH;
        self.bytes.drain(begin..begin + data);
        self.next = self.next.wrapping_add(piece as u32);
        self.pieces += 1;
        true
    }
}

fn sequence(packet: &[u8], transport: usize) -> u32 {
    u32::from_be_bytes([
        packet[transport + 4],
        packet[transport + 5],
        packet[transport + 6],
        packet[transport + 7],
    ])
}

/// Whether headers differ in nothing but lengths, sequence numbers, flags and checksums.
fn is_alike(one: &[u8], other: &[u8], transport: usize) -> bool {
    let network = if one[0] >> 4 == 4 {
        // Version and class; time to live, protocol and addresses.
        one[..2] == other[..2] && one[8..10] == other[8..10] && one[12..transport] == other[12..transport]
    } else {
        one[..4] == other[..4] && one[6..transport] == other[6..transport]
    };
    let (one, other) = (&one[transport..], &other[transport..]);
    // Ports; acknowledgement and length; window; options.
    network
        && one[..4] == other[..4]
        && one[8..13] == other[8..13]
        && one[14..16] == other[14..16]
        && one[20..] == other[20..]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A packet as the kernel gives it to a device that cuts: of IPv4 or IPv6, `length` bytes of data.
    fn long(is_ipv4: bool, length: usize, size: usize, flags: u8) -> Vec<u8> {
        let mut packet = if is_ipv4 {
            let mut head = vec![0x45, 2, 0, 0, 0, 9, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
            head[2..4].copy_from_slice(&((40 + 12 + length) as u16).to_be_bytes());
            head
        } else {
            let mut head = vec![0x60, 0, 0, 0, 0, 0, 6, 64];
            head[4..6].copy_from_slice(&((20 + 12 + length) as u16).to_be_bytes());
            head.extend([[0xfd; 16], [0xfe; 16]].concat());
            head
        };
        let transport = packet.len();
        packet.extend([3, 232, 7, 208, 0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 2, 0x80, flags, 1, 1, 7, 7, 0, 0]);
        packet.extend([1, 1, 8, 10, 0, 0, 0, 5, 0, 0, 0, 6]);
        packet.extend((0..length).map(|n| (n * 7 + n / 256) as u8));
        let mut read = vec![NEEDS_CHECKSUM, WHOLE, 0, 0];
        if length > size {
            read[1] = if is_ipv4 { TCP_IPV4 } else { TCP_IPV6 };
        }
        read.extend((size as u16).to_ne_bytes());
        read.extend((transport as u16).to_ne_bytes());
        read.extend((TCP_CHECKSUM as u16).to_ne_bytes());
        read.extend(packet);
        read
    }

    fn pieces(read: &mut [u8]) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        split(read, |head, rest| out.push([head, rest].concat())).unwrap();
        out
    }

    fn joined(packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let (mut joining, mut out) = (Joining::new(), Vec::new());
        for packet in packets {
            joining.add(|to| to.extend_from_slice(packet), |bytes| out.push(bytes.to_vec()));
        }
        joining.finish(|bytes| out.push(bytes.to_vec()));
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Data, sequence numbers and flags are those of the long packet, and what is put together is cut apart alike.
        #[test]
        fn what_is_cut_apart_can_be_put_together(
            is_ipv4 in any::<bool>(), length in 0..60_000_usize, size in 500..1500_usize, psh in any::<bool>(), fin in any::<bool>(),
        ) {
            let flags = ACK | if psh { PSH } else { 0 } | if fin { FIN } else { 0 };
            let mut read = long(is_ipv4, length, size, flags);
            let data: Vec<u8> = read[HEADER_BYTES + if is_ipv4 { 52 } else { 72 }..].to_vec();
            let cut = pieces(&mut read);
            prop_assert_eq!(cut.len(), length.div_ceil(size).max(1));
            let mut sequence_number = 0xffff_fff0_u32;
            let mut seen = Vec::new();
            for (n, one) in cut.iter().enumerate() {
                let (transport, at) = tcp_of(one).unwrap();
                prop_assert_eq!(sequence(one, transport), sequence_number);
                prop_assert_eq!(one[transport + 13], if n + 1 == cut.len() { flags } else { ACK });
                if is_ipv4 {
                    prop_assert_eq!(u16::from_be_bytes([one[2], one[3]]) as usize, one.len());
                    prop_assert!(cut.len() == 1 || checksum(&one[..20]) == 0xffff);
                } else {
                    prop_assert_eq!(u16::from_be_bytes([one[4], one[5]]) as usize, one.len() - 40);
                }
                sequence_number = sequence_number.wrapping_add((one.len() - at) as u32);
                seen.extend_from_slice(&one[at..]);
            }
            prop_assert_eq!(seen, data);
            let mut again = Vec::new();
            for mut whole in joined(&cut) {
                again.extend(pieces(&mut whole));
            }
            prop_assert_eq!(again, cut);
        }

        #[test]
        fn nonsense_from_a_device_breaks_nothing(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in any::<u8>()) {
            if bytes.len() > HEADER_BYTES {
                bytes[HEADER_BYTES] = (kind % 3) << 5 | 5;
            }
            let mut cut = Vec::new();
            let _ = split(&mut bytes, |head, rest| cut.push([head, rest].concat()));
            joined(&cut);
        }
    }

    #[test]
    fn few_calls_are_made_for_many_packets_and_none_of_a_gap_is_joined() {
        let mut read = long(true, 14_000, 1400, ACK);
        let cut = pieces(&mut read);
        assert_eq!(joined(&cut).len(), 1);
        let gap: Vec<_> =
            cut.iter().enumerate().filter(|(n, _)| *n != 4).map(|(_, one)| one.clone()).collect();
        assert_eq!(joined(&gap).len(), 2);
        let other = pieces(&mut long(false, 14_000, 1400, ACK));
        assert_eq!(joined(&[&cut[..3], &other[..3]].concat()).len(), 2);
        let acks: Vec<_> = (0..3).flat_map(|_| pieces(&mut long(true, 0, 1400, ACK))).collect();
        assert_eq!(joined(&acks).len(), 3, "each acknowledgement is one");
    }

    #[test]
    fn a_forwarded_packet_whose_checksum_is_wrong_is_nothing() {
        let mut read = long(true, 100, 1400, ACK);
        read[0] = 0;
        assert_eq!(split(&mut read.clone(), |_, _| ()), Err(Nonsense));
        read[HEADER_BYTES + 36..HEADER_BYTES + 38].fill(0);
        let packet = &read[HEADER_BYTES..];
        let sum =
            !(checksum(&[&packet[20..], &pseudo_sum(packet, packet.len() - 20).to_be_bytes()].concat()));
        read[HEADER_BYTES + 36..HEADER_BYTES + 38].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(split(&mut read, |_, _| ()), Ok(()));
    }
}
