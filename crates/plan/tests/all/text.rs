//! Tests that plans of real programs print and parse to equal plans, and that damaged texts are
//! rejected without a panic.

use std::path::{Path, PathBuf};
use tegula_fusion::{flatten, fuse};
use tegula_ir::parse_module;
use tegula_plan::Plan;
use tegula_plan::{PlanWithoutConstants, StripLimits, parse_plan, parse_plan_with, plan, verify};

/// Programs that cannot be compiled yet. This list may only shrink.
const NOT_COMPILED: &[&str] = &[];

fn programs() -> Vec<PathBuf> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/hlo")];
    match std::env::var_os("TEGULA_CORPUS") {
        Some(folder) => folders.push(folder.into()),
        None => eprintln!("skipped: the whole corpus, TEGULA_CORPUS is not set"),
    }
    let entries = folders.iter().flat_map(|folder| {
        let entries = std::fs::read_dir(folder);
        let entries = entries.unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        entries.map(|entry| entry.unwrap().path())
    });
    let is_hlo = |path: &PathBuf| path.extension().is_some_and(|e| e == "hlo");
    let mut programs: Vec<PathBuf> = entries.filter(is_hlo).collect();
    programs.sort();
    assert!(!programs.is_empty());
    programs
}

fn compiled(path: &Path, strips: Option<StripLimits>) -> Result<Plan, String> {
    let text = std::fs::read_to_string(path).unwrap();
    let module = parse_module(&text).map_err(|e| e.to_string())?;
    let program = flatten(
        &module,
        tegula_fusion::ShortLoops::Kept,
        &mut tegula_ir::PassManager::new(),
    )
    .map_err(|e| e.to_string())?;
    let fused = fuse(
        &module,
        program,
        tegula_fusion::Limits::default(),
        &mut tegula_ir::PassManager::new(),
    )
    .map_err(|e| e.to_string())?;
    plan(&module, &fused, strips, &mut tegula_ir::PassManager::new()).map_err(|e| e.to_string())
}

#[test]
fn plans_of_programs_read_back() {
    let mut in_strips = 0;
    for path in programs() {
        let name = path.file_stem().unwrap().to_string_lossy();
        let skipped = NOT_COMPILED.contains(&&*name);
        let plan = match compiled(&path, None) {
            Ok(plan) => plan,
            Err(_) if skipped => continue,
            Err(error) => panic!("{name}: {error}"),
        };
        assert!(!skipped, "{name} compiles now: take it from the list");
        reads_back(&name, &plan);
        let plan = compiled(&path, Some(StripLimits::ALWAYS)).unwrap_or_else(|e| panic!("{e}"));
        reads_back(&name, &plan);
        in_strips += usize::from(plan.to_string().contains(" strips "));
    }
    assert!(in_strips > 5, "{in_strips} programs have steps in strips");
}

fn reads_back(name: &str, plan: &Plan) {
    let text = plan.to_string();
    let read = parse_plan(&text).unwrap_or_else(|error| {
        let line = text.lines().nth(error.line - 1).unwrap_or_default();
        panic!("{name}:{error}\n{line}")
    });
    let again = read.to_string();
    let changed = text.lines().zip(again.lines()).find(|(a, b)| a != b);
    assert_eq!(changed, None, "{name}");
    assert!(read == *plan, "{name}: the plan that was read differs");
    let text = PlanWithoutConstants(plan).to_string();
    let read = parse_plan_with(&text, &plan.constants).unwrap_or_else(|e| panic!("{name}:{e}"));
    assert!(read == *plan, "{name}: it differs with its constants aside");
    if !plan.constants.is_empty() {
        let missing = &plan.constants[1..];
        assert!(
            parse_plan_with(&text, missing).is_err(),
            "{name}: a constant is missing"
        );
    }
    verify(&read).unwrap_or_else(|errors| panic!("{name}: {errors}"));
}

/// A xorshift64* generator, good enough for damaging texts.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        high as usize % limit.max(1)
    }
}

fn damage(text: &mut Vec<u8>, random: &mut Random) {
    const BYTES: &[u8] = b"0189xbkvi{}()[]<>=-,:\"\\\n pfy";
    let at = random.below(text.len());
    let byte = BYTES[random.below(BYTES.len())];
    match random.below(5) {
        0 => text[at] = byte,
        1 => text.insert(at, byte),
        2 => {
            text.remove(at);
        }
        3 => {
            let end = (at + random.below(40)).min(text.len());
            text.drain(at..end);
        }
        _ => {
            let end = (at + random.below(200)).min(text.len());
            let copy = text[at..end].to_vec();
            let to = random.below(text.len());
            text.splice(to..to, copy);
        }
    }
    if text.is_empty() {
        text.push(b' ');
    }
}

#[test]
fn damaged_texts_do_not_panic() {
    let sweep = std::env::var("TEGULA_SWEEP")
        .ok()
        .and_then(|n| n.parse().ok());
    let sweep: usize = sweep.unwrap_or(300);
    let names = [
        "qr_lu_solve",
        "sort_1d",
        "top_k",
        "newton_while",
        "cond_branch",
        "softmax_bf16",
        "attention_f32",
    ];
    let mut random = Random(0x7E6A_1A5E);
    for path in programs() {
        let name = path.file_stem().unwrap().to_string_lossy();
        if !names.contains(&&*name) {
            continue;
        }
        let strips = Some(StripLimits::ALWAYS);
        let text = compiled(&path, strips).unwrap().to_string();
        for _ in 0..sweep {
            let mut damaged = text.clone().into_bytes();
            for _ in 0..=random.below(3) {
                damage(&mut damaged, &mut random);
            }
            let damaged = String::from_utf8_lossy(&damaged);
            match parse_plan(&damaged) {
                // If it is still a valid plan, the verifier and printing must not panic.
                Ok(plan) => {
                    let _ = verify(&plan);
                    let again = parse_plan(&plan.to_string());
                    assert!(again.as_ref() == Ok(&plan), "{name}: {again:?}\n{damaged}");
                }
                Err(error) => {
                    let lines = damaged.split('\n').count();
                    assert!(
                        (1..=lines).contains(&error.line),
                        "{error} of {lines} lines"
                    );
                }
            }
        }
    }
}
