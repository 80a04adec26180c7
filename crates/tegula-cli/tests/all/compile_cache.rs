//! Several processes that share one folder of compiled programs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns an empty folder for this test alone.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cache_{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

/// The files in a folder, sorted by name.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a file").path()).collect();
    paths.sort();
    paths
}

#[test]
fn eight_processes_fill_one_cache() {
    let folder = folder("processes");
    std::fs::create_dir_all(&folder).expect("a folder");
    let cache = folder.join("cache");
    let programs: Vec<PathBuf> = (0..4)
        .map(|number| {
            let path = folder.join(format!("p{number}.hlo"));
            let text = format!(
                "HloModule m ENTRY e {{ p = f32[4,{}] parameter(0)
                   ROOT a = f32[4,{0}] add(p, p) }}",
                number + 3
            );
            std::fs::write(&path, text).expect("written");
            path
        })
        .collect();
    for _ in 0..3 {
        let children: Vec<_> = (0..8)
            .map(|number| {
                let mut command = Command::new(env!("CARGO_BIN_EXE_tegula"));
                command.arg("run").arg(&programs[number % 4]);
                command.arg("--cache").arg(&cache).stderr(Stdio::piped());
                command.stdout(Stdio::piped()).spawn().expect("it starts")
            })
            .collect();
        let mut outputs = vec![None; 4];
        for (number, child) in children.into_iter().enumerate() {
            let output = child.wait_with_output().expect("it ends");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{said}");
            let results: Vec<String> = String::from_utf8_lossy(&output.stdout)
                .lines()
                .filter(|line| !line.contains(" ms") && !line.contains(" us"))
                .map(str::to_owned)
                .collect();
            let first = outputs[number % 4].get_or_insert_with(|| results.clone());
            assert_eq!(*first, results);
        }
        assert_eq!(files(&cache).len(), 4);
    }
}
