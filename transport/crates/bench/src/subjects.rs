//! The codecs that are compared, each behind the same two questions: how long do K coded symbols of a block take,
//! and how long the block from coded symbols alone.
//!
//! Each decodes what it needs and no more: ours and raptor-code take symbols until they say that they are done,
//! raptorq gets two symbols more than the block has (with fewer it fails now and then and starts over),
//! Reed-Solomon gets exactly as many. Coded symbols have just been made when decoding begins, so caches are as
//! warm for all. Every block is compared with its source, outside the time measured.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use codec::paper::ImprovedDecoder;
use codec::{Decoder, Draw, Encoder, Progress, Random, Rows};
use raptorq::{EncodingPacket, ObjectTransmissionInformation, SourceBlockDecoder, SourceBlockEncoder};
use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};

/// One codec at work on blocks of one size.
pub trait Subject {
    /// Its name in the figures, and its variant after a slash.
    fn name(&self) -> &'static str;
    /// The time of making K coded symbols from the source of a block.
    fn encode(&mut self) -> Duration;
    /// The time of restoring a block from coded symbols.
    fn decode(&mut self) -> Duration;
}

/// All of them.
pub fn all(k: u16, symbol_bytes: usize, seed: u64) -> Vec<Box<dyn Subject>> {
    let mut random = Random::new(seed);
    let source: Arc<[u8]> = (0..usize::from(k) * symbol_bytes).map(|_| random.next() as u8).collect();
    vec![
        Box::new(Lt::new(&source, k, symbol_bytes, seed, Manner::Stream)),
        Box::new(Lt::new(&source, k, symbol_bytes, seed, Manner::Cold)),
        Box::new(Lt::new(&source, k, symbol_bytes, seed, Manner::New)),
        Box::new(Lt::new(&source, k, symbol_bytes, seed, Manner::Independent)),
        Box::new(Lt::new(&source, k, symbol_bytes, seed, Manner::Paper)),
        Box::new(Lt::new(&source, k, symbol_bytes, seed, Manner::Raptor)),
        Box::new(Lt::new(&source, k, symbol_bytes, seed, Manner::RaptorCold)),
        Box::new(RaptorQ::new(&source, symbol_bytes)),
        Box::new(RaptorCode::new(&source, k, symbol_bytes)),
        Box::new(ReedSolomon::new(&source, k, symbol_bytes)),
    ]
}

/// How our codes are used.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    /// As in a stream of blocks: their seed and so their rows are known, the decoder is used again.
    Stream,
    /// A seed never seen before, so that rows are made as they are asked for. The decoder is used again.
    Cold,
    /// The same, and a new decoder, for which the system has to give memory.
    New,
    /// As in a stream, with the paper's independent draw.
    Independent,
    /// The paper's draw and its improved decoder.
    Paper,
    /// The Raptor code, as in a stream.
    Raptor,
    /// And with a seed never seen before.
    RaptorCold,
}

/// Different blocks, so that no branch predictor learns one by heart.
const SEEDS: u64 = 32;

struct Lt {
    source: Arc<[u8]>,
    k: u16,
    symbol_bytes: usize,
    manner: Manner,
    known: Vec<Rows>,
    seed: u64,
    decoder: Decoder,
    coded: Vec<u8>,
}

impl Lt {
    fn new(source: &Arc<[u8]>, k: u16, symbol_bytes: usize, seed: u64, manner: Manner) -> Self {
        let seed = seed << 32;
        let known: Vec<Rows> = (0..SEEDS).map(|n| rows(k, manner, seed + n)).collect();
        for rows in &known {
            rows.row(rows.max_symbols() - 1);
        }
        let decoder = Decoder::new(symbol_bytes, known[0].clone()).expect("within the limits");
        let coded = vec![0; rows(k, manner, 0).max_symbols() as usize * symbol_bytes];
        Lt { source: source.clone(), k, symbol_bytes, manner, known, seed, decoder, coded }
    }

    /// The seed of the next block.
    fn next(&mut self) -> u64 {
        self.seed += 1;
        self.seed
    }

    fn rows(&self, seed: u64) -> Rows {
        match self.manner {
            Manner::Cold | Manner::New | Manner::RaptorCold => rows(self.k, self.manner, seed),
            _ => self.known[(seed % SEEDS) as usize].clone(),
        }
    }

    fn make(&mut self, rows: Rows, symbols: usize) {
        let mut encoder =
            Encoder::new(self.source.clone(), self.symbol_bytes, rows).expect("within the limits");
        for (index, out) in (0..).zip(self.coded.chunks_exact_mut(self.symbol_bytes).take(symbols)) {
            encoder.encode(index, out).expect("within the limits");
        }
        black_box(&self.coded);
    }
}

fn rows(k: u16, manner: Manner, seed: u64) -> Rows {
    let draw = match manner {
        Manner::Stream | Manner::Cold | Manner::New => Draw::Dealt,
        Manner::Independent | Manner::Paper => Draw::Independent,
        Manner::Raptor | Manner::RaptorCold => Draw::Raptor,
    };
    Rows::new(k, draw, seed).expect("within the limits")
}

impl Subject for Lt {
    fn name(&self) -> &'static str {
        match self.manner {
            Manner::Stream => "lt",
            Manner::Cold => "lt/cold",
            Manner::New => "lt/new",
            Manner::Independent => "lt/independent",
            Manner::Paper => "lt/paper",
            Manner::Raptor => "raptor",
            Manner::RaptorCold => "raptor/cold",
        }
    }

    fn encode(&mut self) -> Duration {
        let seed = self.next();
        let start = Instant::now();
        let rows = self.rows(seed);
        self.make(rows, self.k.into());
        start.elapsed()
    }

    fn decode(&mut self) -> Duration {
        let seed = self.next();
        let needed = needed(&self.rows(seed), self.manner);
        let rows = self.rows(seed);
        self.make(rows, needed);
        let symbols = || (0..).zip(self.coded.chunks_exact(self.symbol_bytes)).take(needed);
        let start = Instant::now();
        // Made anew where it is new to the receiver.
        let rows = self.rows(seed);
        match self.manner {
            Manner::Paper => {
                let mut decoder = ImprovedDecoder::new(self.symbol_bytes, rows).expect("within the limits");
                let progress = symbols().map(|(index, payload)| decoder.push(index, payload)).last();
                let time = start.elapsed();
                assert!(
                    progress == Some(Ok(Progress::Complete)) && decoder.source() == Some(&self.source[..])
                );
                return time;
            }
            Manner::New => {
                self.decoder = Decoder::new(self.symbol_bytes, rows).expect("within the limits");
            }
            _ => self.decoder.reset(rows),
        }
        let mut progress = None;
        for (index, payload) in symbols() {
            progress = Some(self.decoder.push(index, payload));
        }
        let time = start.elapsed();
        assert!(progress == Some(Ok(Progress::Complete)) && self.decoder.source() == Some(&self.source[..]));
        time
    }
}

/// How many symbols a block with these rows takes if none is lost.
fn needed(rows: &Rows, manner: Manner) -> usize {
    let done = |progress| progress == Ok(Progress::Complete);
    let position = if manner == Manner::Paper {
        let mut decoder = ImprovedDecoder::new(1, rows.clone()).expect("within the limits");
        (0..rows.max_symbols()).position(|index| done(decoder.push(index, &[0])))
    } else {
        let mut decoder = Decoder::new(1, rows.clone()).expect("within the limits");
        (0..rows.max_symbols()).position(|index| done(decoder.push(index, &[0])))
    };
    position.expect("a block is complete long before its last symbol") + 1
}

struct RaptorQ {
    source: Arc<[u8]>,
    symbols: u32,
    config: ObjectTransmissionInformation,
    packets: Vec<EncodingPacket>,
}

impl RaptorQ {
    fn new(source: &Arc<[u8]>, symbol_bytes: usize) -> Self {
        let config = ObjectTransmissionInformation::new(source.len() as u64, symbol_bytes as u16, 1, 1, 1);
        let symbols = (source.len() / symbol_bytes) as u32;
        let packets = SourceBlockEncoder::new(0, &config, source).repair_packets(0, symbols + 2);
        RaptorQ { source: source.clone(), symbols, config, packets }
    }
}

impl Subject for RaptorQ {
    fn name(&self) -> &'static str {
        "raptorq"
    }

    fn encode(&mut self) -> Duration {
        let start = Instant::now();
        let encoder = SourceBlockEncoder::new(0, &self.config, &self.source);
        black_box(encoder.repair_packets(0, self.symbols));
        start.elapsed()
    }

    fn decode(&mut self) -> Duration {
        let packets = self.packets.clone();
        let start = Instant::now();
        let mut decoder = SourceBlockDecoder::new(0, &self.config, self.source.len() as u64);
        let block = decoder.decode(packets);
        let time = start.elapsed();
        assert!(block.as_deref() == Some(&self.source[..]));
        time
    }
}

struct RaptorCode {
    source: Arc<[u8]>,
    k: u16,
    symbols: Vec<Vec<u8>>,
}

impl RaptorCode {
    fn new(source: &Arc<[u8]>, k: u16, _symbol_bytes: usize) -> Self {
        let mut encoder = raptor_code::SourceBlockEncoder::new(source, k.into()).expect("within its limits");
        let symbols = (u32::from(k)..3 * u32::from(k)).map(|esi| encoder.fountain(esi)).collect();
        RaptorCode { source: source.clone(), k, symbols }
    }
}

impl Subject for RaptorCode {
    fn name(&self) -> &'static str {
        "raptor_code"
    }

    fn encode(&mut self) -> Duration {
        let k = u32::from(self.k);
        let start = Instant::now();
        let mut encoder =
            raptor_code::SourceBlockEncoder::new(&self.source, self.k.into()).expect("within its limits");
        for esi in k..2 * k {
            black_box(encoder.fountain(esi));
        }
        start.elapsed()
    }

    fn decode(&mut self) -> Duration {
        let start = Instant::now();
        let mut decoder = raptor_code::SourceBlockDecoder::new(self.k.into());
        for (esi, symbol) in (u32::from(self.k)..).zip(&self.symbols) {
            decoder.push_encoding_symbol(symbol, esi);
            if decoder.fully_specified() {
                break;
            }
        }
        let block = decoder.decode(self.source.len());
        let time = start.elapsed();
        assert!(block.as_deref() == Some(&self.source[..]));
        time
    }
}

struct ReedSolomon {
    source: Arc<[u8]>,
    symbol_bytes: usize,
    encoder: ReedSolomonEncoder,
    decoder: ReedSolomonDecoder,
    recovery: Vec<Vec<u8>>,
}

impl ReedSolomon {
    fn new(source: &Arc<[u8]>, k: u16, symbol_bytes: usize) -> Self {
        let k = usize::from(k);
        let encoder = ReedSolomonEncoder::new(k, k, symbol_bytes).expect("within its limits");
        let decoder = ReedSolomonDecoder::new(k, k, symbol_bytes).expect("within its limits");
        let mut subject =
            ReedSolomon { source: source.clone(), symbol_bytes, encoder, decoder, recovery: Vec::new() };
        subject.add_originals();
        let result = subject.encoder.encode().expect("all shards were added");
        subject.recovery = result.recovery_iter().map(<[u8]>::to_vec).collect();
        drop(result);
        subject
    }

    fn add_originals(&mut self) {
        for shard in self.source.chunks_exact(self.symbol_bytes) {
            self.encoder.add_original_shard(shard).expect("as many shards as were announced");
        }
    }
}

impl Subject for ReedSolomon {
    fn name(&self) -> &'static str {
        "reed_solomon_simd"
    }

    fn encode(&mut self) -> Duration {
        let start = Instant::now();
        self.add_originals();
        black_box(self.encoder.encode().expect("all shards were added"));
        start.elapsed()
    }

    fn decode(&mut self) -> Duration {
        let start = Instant::now();
        for (index, shard) in self.recovery.iter().enumerate() {
            self.decoder.add_recovery_shard(index, shard).expect("as many shards as were announced");
        }
        let result = self.decoder.decode().expect("as many shards as are needed");
        let time = start.elapsed();
        for (index, shard) in self.source.chunks_exact(self.symbol_bytes).enumerate() {
            assert!(result.restored_original(index) == Some(shard));
        }
        time
    }
}
