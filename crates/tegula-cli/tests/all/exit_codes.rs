//! The exit codes of commands: 0 for success, 1 for a finding, 2 for bad usage or input, and for
//! output that cannot be written.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const PROGRAM: &str = "HloModule m
    ENTRY e { p = f32[4,8] parameter(0) ROOT a = f32[4,8] add(p, p) }";

/// Writes a program to a file of its own.
fn file(name: &str, text: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join(format!("exit_codes_{name}.hlo"));
    std::fs::write(&path, text).expect("a file");
    path
}

fn tegula(arguments: &[&str], program: &Path, out: Stdio) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tegula"));
    let arguments = arguments
        .iter()
        .map(|a| a.replace("%s", &program.display().to_string()));
    let command = command.args(arguments).stdout(out).stderr(Stdio::piped());
    let child = command.spawn().expect("it starts");
    child.wait_with_output().expect("it ends")
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_said() {
    let program = file("full", PROGRAM);
    let full = || Stdio::from(std::fs::File::create("/dev/full").expect("a device"));
    for line in [
        "run %s",
        "run %s --target interp",
        "compile %s --emit plan",
        "index %s",
        "shape f32[2,3]",
        "simplify (d0)->(d0),domain:d0in[0,4]",
        "layout %s",
        "simulate %s",
        "bench %s",
        "--help",
        "--version",
        "run --help",
    ] {
        for json in [None, Some("--json")] {
            let arguments: Vec<&str> = line.split(' ').chain(json).collect();
            let output = tegula(&arguments, &program, full());
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{line} {json:?}: {said}");
        }
    }
    for line in [
        "run %s --outputs /dev/full",
        "compile %s --emit plan --output /dev/full",
    ] {
        let arguments: Vec<&str> = line.split(' ').collect();
        let output = tegula(&arguments, &program, Stdio::null());
        assert_eq!(output.status.code(), Some(2), "{line}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let program = file("reader", PROGRAM);
    let mut command = Command::new(env!("CARGO_BIN_EXE_tegula"));
    let command = command.arg("run").arg(&program).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn what_cannot_be_done_is_2_on_every_target() {
    let collective = file(
        "collective",
        "HloModule m
         a { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }
         ENTRY e { p = f32[8] parameter(0)
           ROOT r = f32[8] all-reduce(p), replica_groups={{0,1}}, to_apply=a }",
    );
    // The results of the next three programs are unused, but the programs are rejected all the
    // same.
    let send = file(
        "send",
        "HloModule m
         ENTRY e { p = f32[8] parameter(0) t = token[] after-all()
           s = (f32[8], u32[], token[]) send(p, t), channel_id=1, is_host_transfer=true
           d = token[] send-done(s), channel_id=1, is_host_transfer=true
           ROOT r = f32[8] negate(p) }",
    );
    let infeed = file(
        "infeed",
        "HloModule m
         ENTRY e { p = f32[8] parameter(0) t = token[] after-all()
           i = (f32[8], token[]) infeed(t) ROOT r = f32[8] negate(p) }",
    );
    let outfeed = file(
        "outfeed",
        "HloModule m
         ENTRY e { p = f32[8] parameter(0) t = token[] after-all()
           o = token[] outfeed(p, t), outfeed_shape=f32[8] ROOT r = f32[8] negate(p) }",
    );
    let shards = file(
        "shards",
        "HloModule m
         ENTRY e { p = f32[4] parameter(0)
           ROOT r = f32[8] custom-call(p), custom_call_target=\"SPMDShardToFullShape\" }",
    );
    for program in [collective, send, infeed, outfeed, shards] {
        for target in ["interp", "plan", "cpu", "tpu"] {
            let line = ["run", "%s", "--target", target];
            let output = tegula(&line, &program, Stdio::null());
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let code = output.status.code();
            assert_eq!(code, Some(2), "{} on {target}: {said}", program.display());
        }
    }
}

#[test]
fn an_unused_call_without_a_meaning_is_left_out() {
    let program = file(
        "unused_call",
        "HloModule m
         ENTRY e { p = f32[8] parameter(0)
           c = f32[8] custom-call(p), custom_call_target=\"nobody_knows_it\"
           ROOT r = f32[8] negate(p) }",
    );
    for target in ["interp", "plan", "cpu"] {
        let output = tegula(&["run", "%s", "--target", target], &program, Stdio::null());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{target}: {said}");
    }
}

#[test]
fn the_evaluator_gives_up() {
    // Each computation calls the one before it twice.
    let mut text =
        String::from("HloModule m\nc0 { p = f32[] parameter(0) ROOT a = f32[] add(p, p) }\n");
    for i in 1..100 {
        text += &format!(
            "c{i} {{ p = f32[] parameter(0) q = f32[] call(p), to_apply=c{0}
               ROOT a = f32[] call(q), to_apply=c{0} }}\n",
            i - 1
        );
    }
    text += "ENTRY e { p = f32[] parameter(0) ROOT c = f32[] call(p), to_apply=c99 }";
    let program = file("calls", &text);
    let line = ["run", "%s", "--target", "interp", "--steps", "1000"];
    let output = tegula(&line, &program, Stdio::null());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("exceeds 1000 instructions"), "{said}");
}

#[test]
fn a_loop_of_unknown_length_is_named() {
    let endless = file(
        "endless",
        "HloModule m
         c { p = (s32[], f32[4]) parameter(0) ROOT t = pred[] constant(true) }
         b { p = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(p), index=0
             x = f32[4] get-tuple-element(p), index=1 y = f32[4] add(x, x)
             ROOT t = (s32[], f32[4]) tuple(i, y) }
         ENTRY e { i = s32[] constant(0) x = f32[4] parameter(0) t = (s32[], f32[4]) tuple(i, x)
           w = (s32[], f32[4]) while(t), condition=c, body=b
           ROOT r = f32[4] get-tuple-element(w), index=1 }",
    );
    let output = tegula(&["simulate", "%s"], &endless, Stdio::piped());
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.contains("the trip count of `w` is unknown: assumed to be 5"),
        "{said}"
    );
    let output = tegula(&["simulate", "%s", "--json"], &endless, Stdio::piped());
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.contains("\"assumed_loops\":[{\"loop\":\"w\",\"trips\":5}]"),
        "{said}"
    );
    let output = tegula(
        &["run", "%s", "--target", "tpu", "--steps", "1000"],
        &endless,
        Stdio::null(),
    );
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn elided_constants_are_made_up_from_a_seed() {
    let program = file(
        "elided",
        "HloModule m ENTRY e { c = f32[8,8] constant({...}) ROOT a = f32[8,8] add(c, c) }",
    );
    let run = |seed: &[&str]| {
        let line: Vec<&str> = ["run", "%s"].iter().chain(seed).copied().collect();
        tegula(&line, &program, Stdio::piped())
    };
    assert_eq!(run(&[]).status.code(), Some(2));
    let first = run(&["--fill-elided", "1"]);
    assert_eq!(first.status.code(), Some(0));
    let results = |output: &Output| {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines()
            .filter(|line| line.starts_with("out"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(results(&first), results(&run(&["--fill-elided", "1"])));
    assert_ne!(results(&first), results(&run(&["--fill-elided", "2"])));
}

#[test]
fn callbacks_without_results_are_left_out() {
    let text = |result: &str, root: &str| {
        format!(
            "HloModule m ENTRY e {{ p = f32[3] parameter(0)
               d = {result} custom-call(p), custom_call_target=\"xla_ffi_python_cpu_callback\", \
               custom_call_has_side_effect=true, api_version=API_VERSION_TYPED_FFI, \
               backend_config={{index = 0 : ui64}}
               a = f32[3] add(p, p) ROOT r = f32[3] add(a, {root}) }}"
        )
    };
    let print = file("callback", &text("()", "a"));
    let calls = file("callback_with_result", &text("f32[3]", "d"));
    for target in ["interp", "plan", "cpu"] {
        let output = tegula(&["run", "%s", "--target", target], &print, Stdio::null());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{target}: {said}");
        assert!(
            said.starts_with("warning: `d` would call a Python function"),
            "{said}"
        );
        let output = tegula(&["run", "%s", "--target", target], &calls, Stdio::null());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{target}: {said}");
        assert!(said.contains("calls a Python function"), "{said}");
    }
}
