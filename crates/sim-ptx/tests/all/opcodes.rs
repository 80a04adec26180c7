//! The list of opcodes in the documentation is the decoder's table, and other opcodes are refused
//! with their position. `TEGULA_BLESS=1` rewrites the list.

use std::fmt::Write;

use tegula_sim_ptx::{Module, supported};

#[test]
fn the_list_is_the_table() {
    let mut text = String::from(
        "# PTX that `tegula-sim-ptx` runs\n\n\
         Made from the decoder's table by `TEGULA_BLESS=1 cargo test -p tegula-sim-ptx --test all opcodes`.\n\
         Anything else is an error with its line when a module is read.\n\n\
         | opcode | forms |\n|---|---|\n",
    );
    for (name, forms) in supported() {
        let _ = writeln!(text, "| `{name}` | {forms} |");
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/ptx.md");
    if std::env::var_os("TEGULA_BLESS").is_some() {
        std::fs::write(path, &text).expect("the list is written");
    }
    let found = std::fs::read_to_string(path).expect("docs/ptx.md");
    assert!(
        found == text,
        "docs/ptx.md is not the decoder's table: run with TEGULA_BLESS=1"
    );
}

/// The error for a kernel with one instruction.
fn refused(instruction: &str) -> String {
    let text = format!(
        ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry f()\n{{\n.reg .b32 %r<9>;\n\
         .reg .b64 %rd<9>;\n.reg .pred %p<9>;\n  {instruction}\n  ret;\n}}\n"
    );
    Module::parse(&text).expect_err(instruction).to_string()
}

#[test]
fn what_is_not_known_is_refused_with_its_place() {
    let cases = [
        (
            "wgmma.fence.sync.aligned;",
            "line 9, column 3: the instruction `wgmma` is not supported",
        ),
        (
            "add.s32.foo %r1, %r2, %r3;",
            "the modifier `.foo` is not supported",
        ),
        ("add.s32 %r1, %r2;", "takes 3 operands here, not 2"),
        ("add.s32 %r1, %r2, %r77;", "`%r77` is not declared"),
        ("add.s32 %rd1, %r2, %r3;", "its register 64"),
        (
            "add.s64 %rd1, %rd2, %r3;",
            "a register of 64 bits is needed",
        ),
        ("bra $nowhere;", "label `$nowhere` is not defined"),
        (
            "mov.u32 %r1, %laneidx.w;",
            "the special register `%laneidx.w` is not supported",
        ),
        ("cvt.f32.s32 %r1, %r2;", "needs a rounding"),
        (
            "shfl.bfly.b32 %r1, %r2, 1, 31;",
            "the form without `.sync` is not supported",
        ),
        ("call.uni (), g, ();", "has no body in this module"),
        (
            "add.s32 %r1, %r2, 99999999999999999999;",
            "does not fit in 64 bits",
        ),
        ("add.s32 %r1 %r2;", "expected `,` or `;`, found `%r2`"),
        ("tex.2d.v4.f32.f32 {%r1}, [x, {%r2}];", "expected"),
        ("@%r1 add.s32 %r1, %r2, %r3;", "`%r1` is not a predicate"),
        (
            "lop3.b32 %r1, %r2, %r3, %r4, 256;",
            "does not fit in 8 bits",
        ),
    ];
    for (instruction, expected) in cases {
        let error = refused(instruction);
        assert!(
            error.starts_with("line 9, column") && error.contains(expected),
            "{instruction}: {error}"
        );
    }
}

#[test]
fn no_text_makes_it_panic() {
    let whole = include_str!("../programs/faults.ptx");
    // The text is truncated at any position, or has a changed byte at any position.
    for cut in (0..whole.len()).step_by(97) {
        let _result = Module::parse(&whole[..cut]);
        let mut bytes = whole.as_bytes().to_vec();
        bytes[cut] = b"{};.%0,[-"[cut % 9];
        if let Ok(text) = std::str::from_utf8(&bytes[..bytes.len().min(cut + 4000)]) {
            let _result = Module::parse(text);
        }
    }
    for text in [
        "",
        "\0",
        ".entry",
        ".visible .entry f(.param .u64 p[99999999999])",
        ".global .b8 x[9999999999];",
    ] {
        let _result = Module::parse(text);
    }
}
