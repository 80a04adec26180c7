//! `tegula reduce` runs the command on candidates and writes the smallest one.

use std::fmt::Write;
use std::process::Command;
use tegula_ir::{PrintStyle, print_module};

#[test]
fn a_chain_shrinks_to_the_operation_that_the_command_looks_for() {
    let mut text = "HloModule chain\n\nENTRY main {\n  x0 = f32[128,64] parameter(0)\n".to_owned();
    for i in 1..30 {
        let op = if i == 17 { "tanh" } else { "negate" };
        let _ = writeln!(text, "  x{i} = f32[128,64] {op}(x{})", i - 1);
    }
    text.push_str("  ROOT r = f32[128,64] negate(x29)\n}\n");
    let folder = std::env::temp_dir().join(format!("tegula-reduce-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("there is room for a folder");
    let (model, output) = (folder.join("chain.hlo"), folder.join("small.hlo"));
    std::fs::write(&model, text).expect("the program can be written");
    let run = Command::new(env!("CARGO_BIN_EXE_tegula"))
        .arg("reduce")
        .arg(&model)
        .arg("-o")
        .arg(&output)
        .args([
            "--json",
            "--",
            "sh",
            "-c",
            "grep -q tanh \"$0\" && exit 1; exit 0",
        ])
        .output()
        .expect("tegula runs");
    let small = std::fs::read_to_string(&output).unwrap_or_default();
    let errors = String::from_utf8_lossy(&run.stderr);
    let _ = std::fs::remove_dir_all(&folder);
    assert!(run.status.success(), "{errors}");
    let report: serde_json::Value = serde_json::from_slice(&run.stdout).expect("one JSON object");
    assert_eq!(report["instructions"], 2, "{small}");
    assert!(
        small.contains("f32[1,1] tanh(") && !small.contains("negate"),
        "{small}"
    );
}

/// Reduces a program under the condition that its text contains all given words.
fn reduced(text: &str, words: &[&str]) -> (String, usize) {
    let module = text
        .parse::<tegula::Module>()
        .expect("the program is right");
    let mut tries = 0;
    let mut fails = |module: &tegula_ir::Module| {
        tries += 1;
        let text = print_module(module, PrintStyle::Short);
        // Every candidate parses.
        let read = text.parse::<tegula::Module>();
        assert!(read.is_ok(), "{text}\n{read:?}");
        Ok::<bool, std::convert::Infallible>(words.iter().all(|word| text.contains(word)))
    };
    let reduction = tegula::reduce::reduce(&module, 2000, &mut fails);
    let Ok(reduction) = reduction;
    (print_module(&reduction.module, PrintStyle::Short), tries)
}

#[test]
fn sizes_shrink_with_everything_that_follows_from_them() {
    let text = "HloModule sizes
        sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
        ENTRY e {
          x = f32[128,64] parameter(0)
          w = f32[64,256] parameter(1)
          y = f32[128,256] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
          flat = f32[32768] reshape(y)
          both = f32[65536] concatenate(flat, flat), dimensions={0}
          part = f32[1000] slice(both), slice={[24:1024]}
          zero = f32[] constant(0)
          padded = f32[1010] pad(part, zero), padding=4_6
          many = f32[1010,16] broadcast(padded), dimensions={0}
          total = f32[16] reduce(many, zero), dimensions={0}, to_apply=sum
          ROOT r = f32[16] tanh(total)
        }";
    let words = [
        "dot(",
        "concatenate(",
        "slice(",
        "pad(",
        "reduce(",
        "reshape(",
        "tanh(",
    ];
    let (small, _) = reduced(text, &words);
    for size in ["128", "64", "256", "32768", "1000", "16"] {
        assert!(!small.contains(&format!("[{size}")), "{small}");
        assert!(!small.contains(&format!(",{size}]")), "{small}");
    }
    assert!(small.contains("f32[1,1] dot("), "{small}");
}

#[test]
fn sizes_of_loops_windows_and_constants_shrink() {
    let text = "HloModule sizes
        larger { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }
        go_on { s = (s32[], f32[40,30]) parameter(0)  i = s32[] get-tuple-element(s), index=0
          n = s32[] constant(5)  ROOT go = pred[] compare(i, n), direction=LT }
        next { s = (s32[], f32[40,30]) parameter(0)  i = s32[] get-tuple-element(s), index=0
          x = f32[40,30] get-tuple-element(s), index=1
          one = s32[] constant(1)  j = s32[] add(i, one)
          y = f32[40,30] cosine(x)  ROOT n = (s32[], f32[40,30]) tuple(j, y) }
        ENTRY e {
          x = f32[40,30] parameter(0)
          zero = s32[] constant(0)
          start = (s32[], f32[40,30]) tuple(zero, x)
          loop = (s32[], f32[40,30]) while(start), condition=go_on, body=next
          y = f32[40,30] get-tuple-element(loop), index=1
          lowest = f32[] constant(-inf)
          pooled = f32[20,30] reduce-window(y, lowest), window={size=2x1 stride=2x1}, to_apply=larger
          weights = f32[4] constant({1, 2, 3, 4})
          wide = f32[20,30,4] broadcast(weights), dimensions={2}
          tall = f32[20,30,4] broadcast(pooled), dimensions={0,1}
          ROOT r = f32[20,30,4] multiply(wide, tall)
        }";
    let words = ["while(", "cosine(", "reduce-window(", "multiply(", "{1"];
    let (small, _) = reduced(text, &words);
    for size in ["40", "30", "20"] {
        assert!(!small.contains(size), "{small}");
    }
}

#[test]
fn a_size_that_the_failure_needs_stays() {
    let text = "HloModule sizes
        ENTRY e {
          x = f32[128,64] parameter(0)
          y = f32[128,64] negate(x)
          ROOT r = f32[64,128] transpose(y), dimensions={1,0}
        }";
    let (small, tries) = reduced(text, &["f32[128,", "negate("]);
    assert!(small.contains("f32[128,1] negate("), "{small}");
    assert!(tries < 60, "{tries}");
}
