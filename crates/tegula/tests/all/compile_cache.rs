//! The cache of compiled programs: hits, damaged files, other users, its size limit.

use crate::read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tegula::{Arg, Cache, Options, Tensor, compile};

/// The path of a folder that does not exist yet.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cache_{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a file").path()).collect();
    paths.sort();
    paths
}

/// Computes `a * x + a` with a program that goes through the cache.
fn computed(cache: &Cache, a: f32) -> Vec<f32> {
    let text = format!(
        "HloModule m
         ENTRY e {{
           x = f32[2] parameter(0)
           a = f32[2] constant({{ {a}, {a} }})
           m = f32[2] multiply(a, x)
           ROOT s = f32[2] add(m, a)
         }}"
    );
    let options = Options {
        cache: Some(cache.clone()),
        ..Options::default()
    };
    let module = read(&text).expect("a program");
    let executable = compile(&module, &options).expect("compiled");
    let x = Tensor::from_slice::<f32>(&[2], &[1.0, 2.0]).expect("an array");
    let results = executable.run(vec![Arg::Borrowed(&x)]).expect("it runs");
    results[0].as_slice::<f32>().expect("floats").to_vec()
}

#[test]
fn a_program_is_found_again_and_others_are_not() {
    let folder = folder("hits");
    let cache = Cache::at(&folder).expect("a cache");
    assert_eq!(computed(&cache, 3.0), [6.0, 9.0]);
    let first = files(&folder);
    assert_eq!(first.len(), 1);
    let modified = |path: &Path| path.metadata().and_then(|found| found.modified()).ok();
    let written = modified(&first[0]);
    assert_eq!(computed(&cache, 3.0), [6.0, 9.0]);
    assert_eq!(files(&folder), first);
    assert_eq!(modified(&first[0]), written);
    // The programs differ only in a constant.
    assert_eq!(computed(&cache, 4.0), [8.0, 12.0]);
    assert_eq!(files(&folder).len(), 2);
}

#[test]
fn damaged_files_are_made_anew() {
    let folder = folder("damage");
    let cache = Cache::at(&folder).expect("a cache");
    let expected = computed(&cache, 5.0);
    let path = files(&folder).pop().expect("a file");
    let whole = std::fs::read(&path).expect("its bytes");
    for round in 0..200 {
        let mut bytes = whole.clone();
        let at = round * 7919 % bytes.len();
        match round % 2 {
            0 => bytes[at] ^= 0x40,
            _ => bytes.truncate(at),
        }
        // Replaces the file as another process would: writes a new one beside it and renames that.
        let beside = folder.join("other");
        std::fs::write(&beside, &bytes).expect("written");
        std::fs::rename(&beside, &path).expect("renamed");
        assert_eq!(computed(&cache, 5.0), expected, "round {round}");
        assert!(
            std::fs::read(&path).expect("its bytes") == whole,
            "round {round}"
        );
    }
}

#[test]
fn nothing_is_taken_from_where_others_can_write() {
    let folder = folder("others");
    let cache = Cache::at(&folder).expect("a cache");
    let expected = computed(&cache, 6.0);
    let mode = |path: &Path, mode| {
        let changed = std::fs::set_permissions(path, PermissionsExt::from_mode(mode));
        changed.expect("it is ours");
    };
    // A file that other users can write to is ignored; the program is compiled into a new file.
    let path = files(&folder).pop().expect("a file");
    mode(&path, 0o666);
    assert_eq!(computed(&cache, 6.0), expected);
    let found = path.metadata().expect("a file").permissions().mode();
    assert_eq!(found & 0o777, 0o600);
    mode(&folder, 0o777);
    let error = Cache::at(&folder)
        .expect_err("others can write")
        .to_string();
    assert!(error.contains("nobody else can write"), "{error}");
    mode(&folder, 0o700);
    let error = Cache::at(&path).expect_err("a file").to_string();
    assert!(error.contains("cannot be opened"), "{error}");
}

#[test]
fn the_oldest_programs_make_room() {
    let folder = folder("bound");
    let cache = Cache::at(&folder).expect("a cache");
    computed(&cache, 1.0);
    let one = files(&folder)[0].metadata().expect("a file").len();
    let cache = cache.with_limit(3 * one + one / 2);
    for a in 2..9 {
        std::thread::sleep(std::time::Duration::from_millis(20));
        computed(&cache, a as f32);
        assert!(files(&folder).len() <= 3);
    }
    assert_eq!(files(&folder).len(), 3);
    let nothing = cache.with_limit(one / 2);
    computed(&nothing, 10.0);
    assert_eq!(files(&folder).len(), 3);
}
