//! The header and the library as a C program sees them.

use std::path::Path;
use std::process::Command;

#[test]
fn a_c_program_fetches_from_two_servers_over_a_link_with_losses() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = std::env::temp_dir().join(format!("weir-capi-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    // Cargo puts the library where it puts this test.
    let libraries = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let library = libraries.join("libweir_transport_capi.so");
    let library = if library.exists() { library } else { libraries.join("../libweir_transport_capi.so") };
    let program = directory.join("pair");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(here.join("include"))
        .arg(here.join("tests/pair.c"))
        .arg(&library)
        .arg(format!("-Wl,-rpath,{}", library.parent().unwrap().display()))
        .arg("-o")
        .arg(&program)
        .status()
        .expect("a C compiler is needed: cc");
    assert!(compiled.success());
    let done = Command::new(&program).output().unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    let told = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{told}");
    assert!(told.contains("2 complete"), "{told}");
}
