//! File tests that run one pass on the text of one kernel: `filetests/PASS/NAME.kernel`.
//!
//! A file describes in comments (`#`) what it tests; then follow a kernel, a line `---`, and the
//! expected result of the pass: kernels, or `unchanged`. `TEGULA_BLESS=1` writes the current
//! results.

use super::cse::eliminate_common_subexpressions;
use super::full_unroll::fully_unrolled;
use super::index_set_split::split_index_set;
use super::integer_moves::move_as_integers;
use super::loop_coalesce::coalesce_loops;
use super::loop_interchange::interchange_loops;
use super::loop_unswitch::unswitch_loops;
use super::pack_operand::pack_operands;
use super::reduction_interchange::interchange_reductions;
use super::unroll_and_jam::{jam_short_dims, unroll_and_jam};
use crate::vectorize::select_loops::select_loops;
use std::fmt::Write;
use std::path::Path;
use tegula_fusion::Kernel;
use tegula_plan::{KernelText, parse_kernel, verify_kernel};

/// The maximum number of statements of a kernel for `full-unroll`.
const MAX_STATEMENTS: usize = 16;

/// The result of a pass for a kernel, as text.
fn run(pass: &str, kernel: &Kernel) -> String {
    let changed = match pass {
        "integer-moves" => move_as_integers(kernel),
        "loop-unswitch" => unswitch_loops(kernel),
        "reduction-interchange" => interchange_reductions(kernel),
        "loop-coalesce" => coalesce_loops(kernel),
        "jam-short-dims" => jam_short_dims(kernel, true),
        "loop-interchange" => interchange_loops(kernel),
        "unroll-and-jam" => unroll_and_jam(kernel).map(|jammed| jammed.kernel),
        "full-unroll" => fully_unrolled(kernel, MAX_STATEMENTS),
        "cse" => {
            let mut changed = kernel.clone();
            eliminate_common_subexpressions(&mut changed);
            (changed != *kernel).then_some(changed)
        }
        "pack-operand" => pack_operands(kernel, &select_loops(kernel)).map(|(kernel, ..)| kernel),
        "index-set-split" => {
            let pieces = split_index_set(kernel).into_iter();
            return text(&pieces.map(|piece| piece.kernel).collect::<Vec<_>>());
        }
        "select-loops" => return select_loops(kernel).to_string(),
        _ => panic!("there is no pass `{pass}`"),
    };
    text(&Vec::from_iter(changed))
}

fn text(kernels: &[Kernel]) -> String {
    if kernels.is_empty() {
        return "unchanged\n".to_owned();
    }
    let mut text = String::new();
    for kernel in kernels {
        assert_eq!(verify_kernel(kernel), Ok(()), "{}", KernelText(kernel));
        let _ = write!(text, "{}", KernelText(kernel));
    }
    text
}

#[test]
fn passes_do_what_their_files_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("filetests");
    let bless = std::env::var_os("TEGULA_BLESS").is_some();
    let mut wrong = String::new();
    let mut files = 0;
    for pass in std::fs::read_dir(&folder).expect("the folder is there") {
        let pass = pass.expect("it can be read").path();
        let name = pass.file_name().and_then(|n| n.to_str()).expect("a name");
        for file in std::fs::read_dir(&pass).expect("a folder for each pass") {
            let file = file.expect("it can be read").path();
            let contents = std::fs::read_to_string(&file).expect("it can be read");
            let (given, want) = contents.split_once("---\n").expect("a line `---`");
            let lines = given.lines().filter(|line| !line.starts_with('#'));
            let kernel = lines.collect::<Vec<_>>().join("\n");
            let kernel =
                parse_kernel(&kernel).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            assert_eq!(verify_kernel(&kernel), Ok(()), "{}", file.display());
            let got = run(name, &kernel);
            files += 1;
            if bless {
                std::fs::write(&file, format!("{given}---\n{got}")).expect("it can be written");
            } else if got != want {
                let _ = writeln!(wrong, "{}: want\n{want}got\n{got}", file.display());
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(files >= 30, "only {files} files were found");
}
