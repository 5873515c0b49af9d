//! The header and the library as C programs see them.

use std::path::Path;
use std::process::Command;

/// What a program of this name says, which must succeed.
fn run(name: &str) -> String {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = std::env::temp_dir().join(format!("weir-capi-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    // Cargo puts the library where it puts this test.
    let libraries = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let library = libraries.join("libweir_transport_capi.so");
    let library = if library.exists() { library } else { libraries.join("../libweir_transport_capi.so") };
    let program = directory.join(name);
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(here.join("include"))
        .arg(here.join("tests").join(name).with_extension("c"))
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
    told
}

#[test]
fn a_c_program_fetches_from_two_servers_over_a_link_with_losses() {
    let told = run("pair");
    assert!(told.contains("2 complete"), "{told}");
}

#[test]
fn a_c_program_sends_at_the_rate_that_it_tells_over_a_link_with_losses() {
    let told = run("fountain");
    assert!(told.starts_with("stored after"), "{told}");
}

#[test]
fn c_programs_of_atp_exchange_streams_over_a_link_that_loses_doubles_and_reorders() {
    let told = run("atp");
    assert!(told.contains("each as it should be"), "{told}");
}

#[test]
fn a_c_program_is_told_what_is_wrong_with_what_it_asks_of_atp() {
    let told = run("atp_misuse");
    assert!(told.contains("refused, each with words"), "{told}");
}
