//! Compiles the routines to one object, with the compiler that builds everything else: no second
//! cargo, no network, and the same for every way of building.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The C library's functions that routines may call: the compiler makes such calls of copies.
const KNOWN: [&str; 4] = ["memcpy", "memmove", "memset", "memcmp"];

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo says where"));
    for source in [
        "routines",
        "../linalg/src/depthwise.rs",
        "../linalg/src/gemm",
        "../linalg/src/list.rs",
        "../linalg/src/microkernels",
        "../linalg/src/planes.rs",
        "../ir/src/element_type.rs",
        "../ir/src/float_format.rs",
        "../target/src/cpu_features.rs",
    ] {
        println!("cargo::rerun-if-changed={source}");
    }
    let object = out.join("routines.o");
    let target = env::var("TARGET").expect("cargo says for what");
    if !target.starts_with("x86_64-") || !target.contains("linux") {
        fs::write(object, []).expect("the output folder can be written");
        return;
    }
    let library = out.join("routines.a");
    let mut rustc = Command::new(env::var_os("RUSTC").expect("cargo says by what"));
    rustc
        .args([
            "--crate-name",
            "tegula_rt_routines",
            "--crate-type",
            "staticlib",
        ])
        .args([
            "--edition",
            "2024",
            "--cap-lints",
            "allow",
            "--target",
            &target,
        ])
        .args(["-C", "opt-level=3", "-C", "panic=abort", "-C", "lto=fat"])
        .args([
            "-C",
            "codegen-units=1",
            "-C",
            "debuginfo=0",
            "-C",
            "relocation-model=pic",
        ])
        .args(["-C", "force-unwind-tables=no", "-C", "strip=none"])
        .arg("-o")
        .arg(&library)
        .arg("routines/lib.rs");
    let status = rustc.status().expect("rustc can be run");
    assert!(status.success(), "{rustc:?} failed");
    let archive = fs::read(&library).expect("rustc has written it");
    let member = member(&archive, "tegula_rt_routines").expect("it has the crate's object");
    let undefined = undefined(member).expect("it is an object of ELF");
    let others: Vec<&String> = undefined
        .iter()
        .filter(|name| !KNOWN.contains(&&name[..]))
        .collect();
    assert!(
        others.is_empty(),
        "routines refer to {others:?}, which programs do not have"
    );
    fs::write(&object, member).expect("the output folder can be written");
    remove(&library);
}

/// The names of undefined symbols in a 64-bit object of ELF.
fn undefined(object: &[u8]) -> Option<Vec<String>> {
    const SYMBOL_TABLE: u64 = 2;
    const SECTION: usize = 64;
    const SYMBOL: usize = 24;
    let number = |at: usize, bytes: usize| -> Option<u64> {
        let bytes = object.get(at..at + bytes)?;
        Some(
            bytes
                .iter()
                .rev()
                .fold(0, |n, &byte| n << 8 | u64::from(byte)),
        )
    };
    let (sections, count) = (number(0x28, 8)? as usize, number(0x3c, 2)? as usize);
    let mut names = Vec::new();
    for section in (0..count).map(|index| sections + index * SECTION) {
        if number(section + 4, 4)? != SYMBOL_TABLE {
            continue;
        }
        let (start, bytes) = (number(section + 0x18, 8)?, number(section + 0x20, 8)?);
        let strings = sections + number(section + 0x28, 4)? as usize * SECTION;
        let strings = number(strings + 0x18, 8)? as usize;
        // The first one is none.
        for symbol in (1..bytes as usize / SYMBOL).map(|i| start as usize + i * SYMBOL) {
            if number(symbol + 6, 2)? == 0 {
                let name = object.get(strings + number(symbol, 4)? as usize..)?;
                let end = name.iter().position(|&byte| byte == 0)?;
                names.push(String::from_utf8_lossy(&name[..end]).into_owned());
            }
        }
    }
    Some(names)
}

/// What is not needed any more may stay where it cannot be removed.
fn remove(file: &Path) {
    let _ = fs::remove_file(file);
}

/// The first member of an archive (of GNU's form) that has this in its name.
fn member<'a>(archive: &'a [u8], name: &str) -> Option<&'a [u8]> {
    /// A header has the name in 16 bytes, and the size in decimal at 48.
    const HEADER: usize = 60;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    let mut rest = archive.strip_prefix(b"!<arch>\n")?;
    let mut long_names: &[u8] = &[];
    while rest.len() >= HEADER {
        let (header, behind) = rest.split_at(HEADER);
        let size: usize = text(&header[48..58]).parse().ok()?;
        let contents = behind.get(..size)?;
        let mut own = text(&header[..16]);
        if own == "//" {
            long_names = contents;
        } else if let Some(start) = own.strip_prefix('/').and_then(|n| n.parse::<usize>().ok()) {
            let end = long_names[start..].iter().position(|&b| b == b'/')?;
            own = text(&long_names[start..start + end]);
        }
        if own.contains(name) {
            return Some(contents);
        }
        rest = behind.get(size.next_multiple_of(2)..)?;
    }
    None
}
