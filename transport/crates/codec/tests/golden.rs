//! The row generators against golden vectors, which a second implementation made (`golden/rows.py`).
//!
//! They are wire format. If this test fails, it is the code that is wrong; a change on purpose needs a new
//! version of the protocol.

use weir_codec::{Draw, Rows};

/// FNV-1a over the constraints and all rows, each as its length and its columns in two bytes, little-endian.
fn checksum(rows: &Rows) -> u64 {
    let mut value = 0xcbf2_9ce4_8422_2325_u64;
    for row in rows.constraints().chain((0..rows.max_symbols()).map(|index| rows.row(index))) {
        for number in std::iter::once(row.len() as u16).chain(row.iter().copied()) {
            for byte in number.to_le_bytes() {
                value = (value ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
            }
        }
    }
    value
}

fn hexadecimal(word: &str) -> u64 {
    u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap()
}

#[test]
fn rows_are_those_of_the_golden_vectors() {
    let mut rows = None;
    let mut compared = 0;
    for line in include_str!("golden/rows.txt").lines() {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["block", draw, k, seed, sum] => {
                let draw = match draw {
                    "independent" => Draw::Independent,
                    "dealt" => Draw::Dealt,
                    "raptor" => Draw::Raptor,
                    _ => panic!("no draw: {line}"),
                };
                let block = Rows::new(k.parse().unwrap(), draw, hexadecimal(seed)).unwrap();
                assert_eq!(checksum(&block), hexadecimal(sum), "{line}");
                rows = Some(block);
            }
            ["row", index, ref columns @ ..] => {
                let expected: Vec<u16> = columns.iter().map(|column| column.parse().unwrap()).collect();
                let index = index.trim_end_matches(':').parse().unwrap();
                assert_eq!(rows.as_ref().unwrap().row(index), expected, "{line}");
                compared += 1;
            }
            _ => panic!("not a line of a golden file: {line}"),
        }
    }
    assert_eq!(compared, 3 * 8 * 6);
}
