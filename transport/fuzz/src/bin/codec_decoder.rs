//! A decoder of any code whatever it is given; and what it decodes of genuine symbols is the source.
#![no_main]

use codec::{Progress, max_symbols};
use libfuzzer_sys::fuzz_target;
use weir_fuzz::Bytes;
use weir_proto::coding::Error;
use weir_proto::object::{Cut, Layout, SYMBOL_BYTES};
use wire::control::Code;

const CODES: [Code; 4] = [Code::Dealt, Code::Independent, Code::Raptor, Code::RaptorQ];

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = Bytes(bytes);
    let k = (bytes.number(2) % 300) as u16;
    let symbol_bytes = u16::from(bytes.byte() % 70);
    let code = CODES[usize::from(bytes.byte()) % CODES.len()];
    let seed = bytes.number(8);
    let source: Vec<u8> =
        (0..usize::from(k) * usize::from(symbol_bytes)).map(|i| (i * 31 + i / 7) as u8).collect();
    let Some(layout) = Layout::new(symbol_bytes, k, source.len() as u64) else {
        assert!(k == 0 || !SYMBOL_BYTES.contains(&symbol_bytes));
        return;
    };
    let cut = Cut::new(layout, code, seed, seed).unwrap();
    let symbol_bytes = layout.symbol_bytes();
    let mut encoder = cut.encoder(0, source.clone().into()).unwrap();
    let mut decoder = cut.decoder(0, symbol_bytes, None).unwrap();
    let mut genuine = true;
    let mut payload = vec![0; symbol_bytes];
    while !bytes.is_empty() {
        let progress = match bytes.byte() {
            // A run of genuine symbols.
            n @ 0..200 => {
                let index = bytes.number(2) as u32 % max_symbols(k);
                let mut progress = Progress::Duplicate;
                for index in (index..max_symbols(k)).take(n.into()) {
                    encoder.encode(index, &mut payload).unwrap();
                    progress = match decoder.push(index, &payload) {
                        Ok(progress) => progress,
                        Err(e) if were_chosen(&e) => return,
                        Err(e) => panic!("symbol {index}: {e}"),
                    };
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
                    Err(e) if were_chosen(&e) => return,
                    Err(_) => {
                        assert!(index >= max_symbols(k) || payload.len() != symbol_bytes);
                        continue;
                    }
                }
            }
            // The next block in the same memory.
            _ => {
                decoder = cut.decoder(0, symbol_bytes, Some(decoder)).unwrap();
                genuine = true;
                continue;
            }
        };
        assert!(progress != Progress::Complete || decoder.source().is_some());
        if let (true, Some(decoded)) = (genuine, decoder.source()) {
            assert!(decoded == &source[..], "another block than the source");
        }
    }
});

/// Whether these are symbols that nobody needs to decode.
fn were_chosen(error: &Error) -> bool {
    matches!(error, Error::Limits(codec::Error::Inactive(_)) | Error::RaptorQDeficient)
}
