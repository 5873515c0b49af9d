//! The two decoders of the LTTP paper (section III.C, Algorithms 1 and 2), for experiments that compare them.
//!
//! Both peel and nothing else, and both move payloads as they go, as the paper does. They take any number of
//! symbols and keep every one that may yet serve, four times a block if each index there is comes once. Who takes symbols
//! from a stranger has to see to that; [`crate::Decoder`] does, and needs fewer.

use std::collections::VecDeque;

use crate::{Error, MAX_SYMBOL_BYTES, Progress, Rows};

/// Algorithm 1. Decoding starts when more symbols are there than the block has; after that only a symbol of
/// degree one starts another round. What a round restored is in the ripple of the next one too.
#[derive(Debug)]
pub struct StandardDecoder {
    peeler: Peeler,
    /// Symbols that came since the last round.
    waiting: Vec<Packet>,
    received: usize,
}

/// Algorithm 2. Each symbol is first freed of all source symbols that are restored already, and every source
/// symbol that is restored starts a round.
#[derive(Debug)]
pub struct ImprovedDecoder {
    peeler: Peeler,
}

impl StandardDecoder {
    /// A decoder of one block.
    ///
    /// # Errors
    /// `symbol_bytes` outside the codec's limits.
    pub fn new(symbol_bytes: usize, rows: Rows) -> Result<Self, Error> {
        Ok(StandardDecoder { peeler: Peeler::new(symbol_bytes, rows)?, waiting: Vec::new(), received: 0 })
    }

    /// Takes the coded symbol `index`.
    ///
    /// # Errors
    /// An index beyond the last of the block; a payload that is not one symbol long.
    pub fn push(&mut self, index: u32, payload: &[u8]) -> Result<Progress, Error> {
        let rows = self.peeler.rows.clone();
        self.push_row(rows.checked(index)?, payload)
    }

    /// Takes a coded symbol whose source symbols are listed in its packet, as in the paper.
    ///
    /// # Errors
    /// A column beyond the last source symbol; a payload that is not one symbol long.
    pub fn push_row(&mut self, columns: &[u16], payload: &[u8]) -> Result<Progress, Error> {
        let packet = self.peeler.packet(columns, payload)?;
        self.received += 1;
        let single = packet.columns.len() == 1;
        self.waiting.push(packet);
        let k = usize::from(self.peeler.rows.k());
        if self.received == k + 1 || (self.received > k && single) {
            for packet in std::mem::take(&mut self.waiting) {
                self.peeler.take(packet);
            }
        }
        Ok(self.peeler.progress())
    }

    /// The block once all of it is restored.
    pub fn source(&self) -> Option<&[u8]> {
        self.peeler.source()
    }
}

impl ImprovedDecoder {
    /// A decoder of one block.
    ///
    /// # Errors
    /// `symbol_bytes` outside the codec's limits.
    pub fn new(symbol_bytes: usize, rows: Rows) -> Result<Self, Error> {
        Ok(ImprovedDecoder { peeler: Peeler::new(symbol_bytes, rows)? })
    }

    /// Takes the coded symbol `index`.
    ///
    /// # Errors
    /// An index beyond the last of the block; a payload that is not one symbol long.
    pub fn push(&mut self, index: u32, payload: &[u8]) -> Result<Progress, Error> {
        let rows = self.peeler.rows.clone();
        self.push_row(rows.checked(index)?, payload)
    }

    /// Takes a coded symbol whose source symbols are listed in its packet, as in the paper.
    ///
    /// # Errors
    /// A column beyond the last source symbol; a payload that is not one symbol long.
    pub fn push_row(&mut self, columns: &[u16], payload: &[u8]) -> Result<Progress, Error> {
        let packet = self.peeler.packet(columns, payload)?;
        self.peeler.take(packet);
        Ok(self.peeler.progress())
    }

    /// How many source symbols are restored.
    pub fn restored(&self) -> usize {
        self.peeler.restored_count
    }

    /// Bytes of a symbol.
    pub fn symbol_bytes(&self) -> usize {
        self.peeler.symbol_bytes
    }

    /// The rows of the block.
    pub fn rows(&self) -> &Rows {
        &self.peeler.rows
    }

    /// The block once all of it is restored.
    pub fn source(&self) -> Option<&[u8]> {
        self.peeler.source()
    }
}

#[derive(Debug)]
struct Packet {
    columns: Vec<u16>,
    payload: Vec<u8>,
}

impl Packet {
    fn remove(&mut self, column: u16, value: &[u8]) {
        self.columns.retain(|&other| other != column);
        self.payload.iter_mut().zip(value).for_each(|(sum, byte)| *sum ^= byte);
    }
}

/// What both have in common: packets of two source symbols or more, and the ripple.
#[derive(Debug)]
struct Peeler {
    rows: Rows,
    symbol_bytes: usize,
    restored: Vec<bool>,
    restored_count: usize,
    source: Vec<u8>,
    packets: Vec<Packet>,
    /// Per source symbol: the packets it is in.
    members: Vec<Vec<u32>>,
}

impl Peeler {
    fn new(symbol_bytes: usize, rows: Rows) -> Result<Self, Error> {
        if symbol_bytes == 0 || symbol_bytes > MAX_SYMBOL_BYTES {
            return Err(Error::SymbolBytes(symbol_bytes));
        }
        let k = usize::from(rows.k());
        Ok(Peeler {
            rows,
            symbol_bytes,
            restored: vec![false; k],
            restored_count: 0,
            source: vec![0; k * symbol_bytes],
            packets: Vec::new(),
            members: vec![Vec::new(); k],
        })
    }

    fn packet(&self, columns: &[u16], payload: &[u8]) -> Result<Packet, Error> {
        if let Some(&column) = columns.iter().find(|&&column| column >= self.rows.k()) {
            return Err(Error::Column { column, columns: self.rows.k().into() });
        }
        if payload.len() != self.symbol_bytes {
            return Err(Error::PayloadBytes { bytes: payload.len(), expected: self.symbol_bytes });
        }
        Ok(Packet { columns: columns.to_vec(), payload: payload.to_vec() })
    }

    /// The preprocessing of Algorithm 2 (lines 5-13). In Algorithm 1 it happens to all packets that waited for
    /// the round, which is what its lines 8-13 do with the symbols in the ripple.
    fn take(&mut self, mut packet: Packet) {
        for column in packet.columns.clone() {
            if self.restored[usize::from(column)] {
                packet.remove(column, &self.source[self.range(column)]);
            }
        }
        match packet.columns[..] {
            [] => {}
            [column] => self.spread(column, packet.payload),
            _ => {
                for &column in &packet.columns {
                    self.members[usize::from(column)].push(self.packets.len() as u32);
                }
                self.packets.push(packet);
            }
        }
    }

    /// Works off the ripple that begins with one source symbol (Algorithm 1, lines 7-25).
    fn spread(&mut self, column: u16, value: Vec<u8>) {
        let mut ripple = VecDeque::new();
        self.restore(column, &value);
        ripple.push_back(column);
        while let Some(column) = ripple.pop_front() {
            let range = self.range(column);
            for number in std::mem::take(&mut self.members[usize::from(column)]) {
                let packet = &mut self.packets[number as usize];
                packet.remove(column, &self.source[range.clone()]);
                if let [other] = packet.columns[..] {
                    let Packet { payload, .. } =
                        std::mem::replace(packet, Packet { columns: Vec::new(), payload: Vec::new() });
                    if !self.restored[usize::from(other)] {
                        self.restore(other, &payload);
                        ripple.push_back(other);
                    }
                }
            }
        }
    }

    fn restore(&mut self, column: u16, value: &[u8]) {
        let range = self.range(column);
        self.source[range].copy_from_slice(value);
        self.restored[usize::from(column)] = true;
        self.restored_count += 1;
    }

    fn range(&self, column: u16) -> std::ops::Range<usize> {
        let start = usize::from(column) * self.symbol_bytes;
        start..start + self.symbol_bytes
    }

    fn progress(&self) -> Progress {
        if self.source().is_some() { Progress::Complete } else { Progress::Needs(1) }
    }

    fn source(&self) -> Option<&[u8]> {
        (self.restored_count == self.restored.len()).then_some(&self.source[..])
    }
}
