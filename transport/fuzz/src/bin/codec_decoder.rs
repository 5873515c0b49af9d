//! A decoder whatever it is given; and what it decodes of genuine symbols is the source.
#![no_main]

use codec::{Decoder, Draw, Encoder, Progress, Rows};
use libfuzzer_sys::fuzz_target;
use weir_fuzz::Bytes;

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = Bytes(bytes);
    let k = (bytes.number(2) % 300) as u16;
    let symbol_bytes = (bytes.byte() % 70).into();
    let draw = if bytes.byte() % 2 == 0 { Draw::Dealt } else { Draw::Independent };
    let seed = bytes.number(8);
    let (Ok(rows), true) = (Rows::new(k, draw, seed), symbol_bytes > 0) else {
        assert!(k == 0 || symbol_bytes == 0);
        return;
    };
    let source: Vec<u8> = (0..usize::from(k) * symbol_bytes).map(|i| (i * 31 + i / 7) as u8).collect();
    let mut encoder = Encoder::new(source.clone().into(), symbol_bytes, rows.clone()).unwrap();
    let mut decoder = Decoder::new(symbol_bytes, rows.clone()).unwrap();
    let mut genuine = true;
    let mut payload = vec![0; symbol_bytes];
    while !bytes.is_empty() {
        let progress = match bytes.byte() {
            // A run of genuine symbols.
            n @ 0..200 => {
                let index = bytes.number(2) as u32 % rows.max_symbols();
                let mut progress = Progress::Duplicate;
                for index in (index..rows.max_symbols()).take(n.into()) {
                    encoder.encode(index, &mut payload).unwrap();
                    progress = decoder.push(index, &payload).unwrap();
                }
                progress
            }
            // Anything, of any length, with any index.
            200..240 => {
                let (index, payload) = (bytes.number(4) as u32, bytes.some());
                match decoder.push(index, &payload) {
                    Ok(progress) => {
                        genuine = false;
                        progress
                    }
                    Err(_) => {
                        assert!(index >= rows.max_symbols() || payload.len() != symbol_bytes);
                        continue;
                    }
                }
            }
            // The next block in the same memory.
            _ => {
                decoder.reset(rows.clone());
                genuine = true;
                continue;
            }
        };
        let complete = decoder.needs() == 0;
        assert_eq!(decoder.source().is_some(), complete);
        assert!(progress != Progress::Complete || complete);
        if genuine && complete {
            assert!(decoder.source() == Some(&source[..]), "another block than the source");
        }
    }
});
