//! Computations that are called with different sizes get copies, up to a limit.

use tegula_ir::{Module, display_shape, infer_symbolic_dims, parse_module, verify};

fn resolved(text: &str) -> Module {
    let mut module = parse_module(text).expect("reads");
    verify(&module).expect("is well-formed");
    infer_symbolic_dims(&mut module, &[]).expect("has sizes");
    verify(&module).expect("is well-formed with copies");
    module
}

#[test]
fn each_call_has_its_own_sizes() {
    let module = resolved(
        "HloModule m
f { x = f32[?] parameter(0) ROOT y = f32[?] negate(x) }
g { x = f32[?] parameter(0) ROOT y = f32[?] call(x), to_apply=f }
ENTRY main {
  a = f32[?] parameter(0)
  b = f32[?] parameter(1)
  c = f32[?] call(a), to_apply=g
  d = f32[?] call(b), to_apply=g
  ROOT t = (f32[?], f32[?]) tuple(c, d)
}",
    );
    let root = module.entry_computation().root;
    let shape = display_shape(&module[root].shape, &module.symbols);
    assert_eq!(shape, "(f32[p0_d0], f32[p1_d0])");
    assert!(module.sizes.guards.is_empty());
    assert_eq!(module.computations.len(), 5);
    // The text of the result is a valid program.
    let again = parse_module(&module.to_string()).expect("reads back");
    verify(&again).expect("is well-formed");
}

#[test]
fn copies_of_copies_end() {
    let mut text =
        String::from("HloModule m\nf0 { x = f32[?] parameter(0) ROOT y = f32[?] negate(x) }\n");
    for level in 1..40 {
        let callee = level - 1;
        text += &format!(
            "f{level} {{ x = f32[?] parameter(0) y = f32[?] parameter(1)
  a = f32[?] call(x{}), to_apply=f{callee}
  b = f32[?] call(y{}), to_apply=f{callee}
  ROOT c = f32[?] concatenate(a, b), dimensions={{0}} }}\n",
            if level == 1 { "" } else { ", y" },
            if level == 1 { "" } else { ", x" },
        );
    }
    text += "ENTRY main { p = f32[?] parameter(0) q = f32[?] parameter(1)
  ROOT r = f32[?] call(p, q), to_apply=f39 }";
    let mut module = parse_module(&text).expect("reads");
    verify(&module).expect("is well-formed");
    let before = module.instructions.len();
    // Whether the sizes can be determined or not, inference ends and the size of the module is
    // bounded.
    let _ = infer_symbolic_dims(&mut module, &[]);
    assert!(module.instructions.len() <= 2 * before + (1 << 14));
}
