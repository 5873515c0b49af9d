//! Takes objects of one sender into a directory: `receiver ADDRESS FINGERPRINT DIRECTORY`. Prints where it listens, and its
//! own fingerprint.

use std::fs::File;
use std::path::Path;

use weir_transport::{Fingerprint, Receiver, Refusal, Result};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let receiver = Receiver::builder().clients(args[2].parse::<Fingerprint>()?).bind(&args[1])?;
    println!("{} {}", receiver.address(), receiver.fingerprint().expect("it is secure"));
    loop {
        let offer = receiver.offer().wait()?;
        let name = offer.name().replace('/', "_");
        match File::create_new(Path::new(&args[3]).join(&name)) {
            Ok(file) => println!("{name:?}: {} bytes", offer.write_to(file).wait()?),
            Err(why) => offer.refuse(Refusal::Exists, &why.to_string()),
        }
    }
}
