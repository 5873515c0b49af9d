//! Numbers of one, two, four or eight bytes (RFC 9000, section 16).

/// The largest number that can be written.
pub const MAX: u64 = (1 << 62) - 1;

/// Bytes that a number takes.
pub const fn len(value: u64) -> usize {
    match value {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => 8,
    }
}

/// Appends a number, of [`MAX`] at most.
pub fn emit(value: u64, out: &mut Vec<u8>) {
    debug_assert!(value <= MAX);
    let bytes = value.to_be_bytes();
    let len = len(value);
    let begin = out.len();
    out.extend_from_slice(&bytes[8 - len..]);
    out[begin] |= (len.trailing_zeros() as u8) << 6;
}

/// Takes a number from the beginning of `bytes`; none if they are too few. A number may have been written with more bytes than it takes.
pub fn take(bytes: &mut &[u8]) -> Option<u64> {
    let first = *bytes.first()?;
    let (number, rest) = bytes.split_at_checked(1 << (first >> 6))?;
    *bytes = rest;
    Some(number[1..].iter().fold(u64::from(first & 0x3f), |value, byte| value << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9000, appendix A.1.
    #[test]
    fn numbers_are_those_of_the_rfc() {
        let examples: [(&[u8], u64); 5] = [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
            (&[0x40, 0x25], 37),
        ];
        for (bytes, value) in examples {
            assert_eq!(take(&mut &*bytes), Some(value));
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for value in (0..62).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit]).chain([MAX]) {
            let mut out = vec![7];
            emit(value, &mut out);
            assert_eq!(out.len(), 1 + len(value));
            for short in 1..out.len() {
                assert_eq!(take(&mut &out[1..short]), None);
            }
            let mut bytes = &out[1..];
            assert_eq!((take(&mut bytes), bytes), (Some(value), &[][..]));
        }
    }
}
