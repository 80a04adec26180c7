//! Compiles the routines to an object for each architecture, with the compiler that builds
//! everything else: no second cargo, no network, and the same for every way of building.
//!
//! Another architecture than the build's own needs Rust's core library for it. If that is not
//! installed, there is no object, and a request for one is answered with what to install.

use flate2::Compression;
use flate2::write::DeflateEncoder;
use object::read::archive::ArchiveFile;
use object::{Object as _, ObjectSymbol};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The name of the routines' crate.
const CRATE: &str = "tegula_rt_routines";

/// Flags for one object of position-independent code, without unwinding. Lints are suppressed,
/// because the original crates check these files.
const FLAGS: &str = "--crate-type staticlib --edition 2024 --cap-lints allow \
    -C opt-level=3 -C panic=abort -C lto=fat -C codegen-units=1 -C debuginfo=0 -C relocation-model=pic \
    -C force-unwind-tables=no -C strip=none";

/// The C library's functions that routines may call: the compiler generates calls of the first
/// four; functions of complex numbers call the others.
const KNOWN: [&str; 17] = [
    "memcpy", "memmove", "memset", "memcmp", "acos", "asin", "atan2", "cos", "cosh", "exp",
    "expm1", "hypot", "log", "log1p", "sin", "sinh", "sqrt",
];

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo says where"));
    // This follows links to their targets.
    println!("cargo::rerun-if-changed=routines");
    println!("cargo::rerun-if-env-changed=RUSTC");
    println!("cargo::rerun-if-env-changed=RUSTC_WORKSPACE_WRAPPER");
    let target = env::var("TARGET").expect("cargo says for what");
    // Clippy needs no object, and compiling both takes minutes.
    let is_linted = env::var_os("RUSTC_WORKSPACE_WRAPPER")
        .is_some_and(|wrapper| Path::new(&wrapper).ends_with("clippy-driver"));
    for architecture in ["x86_64", "aarch64"] {
        let object = out.join(format!("routines-{architecture}.deflate"));
        let own = target.starts_with(&format!("{architecture}-"));
        let triple = match own {
            true => target.clone(),
            false => format!("{architecture}-unknown-linux-gnu"),
        };
        // Only programs for Linux make objects; WebAssembly does not.
        let is_built = !is_linted && target.contains("linux");
        let bytes = match is_built && (own || has_core(&triple)) {
            true => compressed(&compiled(&triple, &out)).expect("memory can be written"),
            false => Vec::new(),
        };
        fs::write(object, bytes).expect("the output folder can be written");
    }
}

fn rustc() -> Command {
    Command::new(env::var_os("RUSTC").expect("cargo says by what"))
}

/// Whether the compiler has the core library for a target. Makes the script run again when that
/// changes.
fn has_core(triple: &str) -> bool {
    let mut rustc = rustc();
    let output = rustc.args(["--print", "target-libdir", "--target", triple]);
    let output = output.output().expect("rustc can be run");
    let folder = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    // Watching a folder that does not exist would rerun the script in each build, so its parent,
    // which changes when the folder appears, is watched instead.
    let watched = match folder.exists() {
        true => Some(&*folder),
        false => folder.ancestors().find(|folder| folder.exists()),
    };
    if let Some(watched) = watched {
        println!("cargo::rerun-if-changed={}", watched.display());
    }
    let is_core = |entry: fs::DirEntry| entry.file_name().to_string_lossy().starts_with("libcore-");
    fs::read_dir(&folder).is_ok_and(|entries| entries.flatten().any(is_core))
}

/// Compiles the routines' object for a target.
fn compiled(triple: &str, out: &Path) -> Vec<u8> {
    let library = out.join("routines.a");
    let mut rustc = rustc();
    rustc
        .args(["--crate-name", CRATE, "--target", triple])
        .args(FLAGS.split_whitespace())
        .arg("-o")
        .arg(&library)
        .arg("routines/lib.rs");
    let status = rustc.status().expect("rustc can be run");
    assert!(status.success(), "{rustc:?} failed");
    let archive = fs::read(&library).expect("rustc has written it");
    let member = member(&archive).expect("the archive has the crate's object");
    let undefined = undefined(member).expect("it is an object of ELF");
    assert!(
        undefined.iter().all(|name| KNOWN.contains(&&name[..])),
        "programs have only {KNOWN:?}, and routines for {triple} refer to {undefined:?}"
    );
    let object = member.to_vec();
    // The archive is no longer needed; failing to remove it does no harm.
    let _ = fs::remove_file(&library);
    object
}

/// Bytes in the form of RFC 1951: a third of an object's size, which most runs of the command line
/// carry without a use.
fn compressed(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// The names of undefined symbols in an object.
fn undefined(object: &[u8]) -> Result<Vec<String>, object::Error> {
    let object = object::File::parse(object)?;
    let undefined = object.symbols().filter(ObjectSymbol::is_undefined);
    let names: Result<Vec<&str>, _> = undefined.map(|symbol| symbol.name()).collect();
    // The first entry of a symbol table is a null symbol without a name.
    let named = names?.into_iter().filter(|name| !name.is_empty());
    Ok(named.map(str::to_owned).collect())
}

/// The object of this crate's routines in an archive, which also has objects of the compiler's own
/// library.
fn member(archive: &[u8]) -> Option<&[u8]> {
    let members = ArchiveFile::parse(archive).ok()?;
    let own = members.members().flatten().find(|member| {
        let name = String::from_utf8_lossy(member.name());
        name.contains(CRATE)
    });
    own?.data(archive).ok()
}
