//! Tests sizes known at run time: the maps of all operations over symbolic dimensions, with each
//! symbol bound to a value, equal the maps for those values.

use crate::common::proof::simplified;
use tegula_expr::Var;
use tegula_indexing::{
    IndexingMap, OperandIndexing, RuntimeSource, Simplifier, fusion_output_to_input,
    input_to_output, output_to_input,
};
use tegula_ir::{InstructionId, Module, parse_module};

/// The module of one operation; `sizes` replace `?` in the text from the left.
fn module(operands: &[&str], result: &str, operation: &str, size: Option<&str>) -> Module {
    let fill = |shape: &str| size.map_or(shape.to_owned(), |size| shape.replace('?', size));
    let names: Vec<String> = (0..operands.len()).map(|n| format!("p{n}")).collect();
    let parameters: String = operands
        .iter()
        .enumerate()
        .map(|(n, shape)| format!("  p{n} = {} parameter({n})\n", fill(shape)))
        .collect();
    let (opcode, attributes) = operation.split_once(' ').unwrap_or((operation, ""));
    let text = format!(
        "HloModule m\nadd {{\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT s = f32[] add(x, y)\n}}\nENTRY e {{\n{parameters}  ROOT r = {} {opcode}({}){attributes}\n}}\n",
        fill(result),
        names.join(", ")
    );
    parse_module(&text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

fn root(module: &Module) -> InstructionId {
    module.entry_computation().root
}

/// The map with every symbol equal to `size`: its run-time sizes become constants.
fn bound_to(map: &IndexingMap, size: i64) -> IndexingMap {
    let mut bound = map.clone();
    let first = map.dims.len() + map.ranges.len();
    for (position, runtime) in map.runtime.iter().enumerate() {
        let Some(RuntimeSource::Size(term)) = &runtime.source else {
            continue;
        };
        let value = term.eval(&|_: Var| Some(size)).expect("a size");
        let own = Var(u32::try_from(first + position).expect("a number"));
        bound.for_each_term(&mut |term| {
            *term = term.substitute(&mut |var| (var == own).then(|| value.into()));
        });
        bound.runtime[position].variable.bounds = tegula_expr::Interval::point(value);
    }
    bound
}

/// All accesses, without the sizes, for all values of run-time offsets.
fn accesses(map: &IndexingMap, most: i64) -> Vec<(Vec<i64>, Vec<i64>)> {
    let mut map = map.clone();
    let sizes: Vec<bool> = map
        .runtime
        .iter()
        .map(|runtime| matches!(runtime.source, Some(RuntimeSource::Size(_))))
        .collect();
    for variable in map.variables_mut() {
        let upper = variable.bounds.upper.min(most).max(variable.bounds.lower);
        variable.bounds.upper = upper;
    }
    let dims = map.dims.len();
    let found = map.accesses(4_000_000).expect("small enough");
    let without = |from: Vec<i64>| {
        let keep = |position: usize| position < dims || !sizes[position - dims];
        let kept = from.into_iter().enumerate();
        kept.filter(|(position, _)| keep(*position))
            .map(|(_, value)| value)
            .collect()
    };
    let mut found: Vec<_> = found
        .into_iter()
        .map(|(from, to)| (without(from), to))
        .collect();
    found.sort();
    found.dedup();
    found
}

fn check(operands: &[&str], result: &str, operation: &str) {
    let open = module(operands, result, operation, None);
    for size in [2, 3, 5] {
        let known = module(operands, result, operation, Some(&size.to_string()));
        for direction in [output_to_input, input_to_output] {
            let pairs = direction(&open, root(&open))
                .into_iter()
                .zip(direction(&known, root(&known)));
            for (symbolic, fixed) in pairs {
                let maps = |found: OperandIndexing| {
                    found
                        .maps
                        .unwrap_or_else(|unknown| panic!("{operation}: {unknown:?}"))
                };
                let (symbolic, fixed) = (&maps(symbolic)[0], &maps(fixed)[0]);
                let most = 40;
                let expected = accesses(fixed, most);
                let simple = simplified(symbolic);
                for map in [symbolic, &simple] {
                    let found = accesses(&bound_to(map, size), most);
                    assert_eq!(found, expected, "{operation} at {size}:\n{map}\n{fixed}");
                }
                assert_eq!(symbolic.exactness, fixed.exactness);
            }
        }
    }
}

#[test]
fn operations_that_move_elements() {
    check(&["f32[?,3]", "f32[?,3]"], "f32[?,3]", "add");
    check(&["f32[?]"], "f32[?,3]", "broadcast , dimensions={0}");
    check(&["f32[3]"], "f32[?,3]", "broadcast , dimensions={1}");
    check(&["f32[?,3]"], "f32[3,?]", "transpose , dimensions={1,0}");
    check(&["f32[?,3]"], "f32[?,3]", "reverse , dimensions={0}");
    check(
        &["f32[?,9]"],
        "f32[2,3]",
        "slice , slice={[0:2:1], [1:9:3]}",
    );
    check(
        &["f32[?,4]", "f32[]"],
        "f32[?,8]",
        "pad , padding=0_0x1_0_1",
    );
}

#[test]
fn pads_and_concatenations() {
    for (size, padding) in [("?", "1_2_0"), ("?", "-1_0_0"), ("?", "1_1_2")] {
        let shapes = [format!("f32[{size}]"), "f32[]".to_owned()];
        let text = |size: i64| {
            let mut parts = padding
                .split('_')
                .map(|p| p.parse::<i64>().expect("a number"));
            let mut next = || parts.next().expect("three");
            let (low, high, interior) = (next(), next(), next());
            size + (size - 1) * interior + low + high
        };
        let operands: Vec<&str> = shapes.iter().map(String::as_str).collect();
        let open = module(
            &operands,
            "f32[?]",
            &format!("pad , padding={padding}"),
            None,
        );
        for n in [2, 4] {
            let fixed = module(
                &[&format!("f32[{n}]"), "f32[]"],
                &format!("f32[{}]", text(n)),
                &format!("pad , padding={padding}"),
                None,
            );
            for direction in [output_to_input, input_to_output] {
                let symbolic = direction(&open, root(&open))[0]
                    .maps
                    .clone()
                    .expect("a map");
                let expected = direction(&fixed, root(&fixed))[0]
                    .maps
                    .clone()
                    .expect("a map");
                let found = accesses(&bound_to(&symbolic[0], n), 40);
                assert_eq!(found, accesses(&expected[0], 40), "{}", symbolic[0]);
            }
        }
    }
    let open = module(
        &["f32[?,2]", "f32[3,2]", "f32[?,2]"],
        "f32[?,2]",
        "concatenate , dimensions={0}",
        None,
    );
    for n in [1, 4] {
        let fixed = module(
            &[&format!("f32[{n},2]"), "f32[3,2]", &format!("f32[{n},2]")],
            &format!("f32[{},2]", 2 * n + 3),
            "concatenate , dimensions={0}",
            None,
        );
        for direction in [output_to_input, input_to_output] {
            let symbolic = direction(&open, root(&open));
            let expected = direction(&fixed, root(&fixed));
            for (symbolic, expected) in symbolic.into_iter().zip(expected) {
                let (symbolic, expected) =
                    (symbolic.maps.expect("a map"), expected.maps.expect("a map"));
                let found = accesses(&bound_to(&symbolic[0], n), 40);
                assert_eq!(found, accesses(&expected[0], 40), "{}", symbolic[0]);
            }
        }
    }
}

#[test]
fn reshapes_that_split_or_merge_known_parts() {
    for (from, to, map) in [
        ("f32[?,12,4]", "f32[?,48]", "d1 floordiv 4, d1 mod 4"),
        ("f32[?,48]", "f32[?,12,4]", "d0, d1 * 4 + d2"),
        ("f32[?,1,4]", "f32[?,2,2]", "d0, 0, d1 * 2 + d2"),
        ("f32[2,3,?]", "f32[6,?]", "d0 floordiv 3, d0 mod 3, d1"),
    ] {
        check(&[from], to, "reshape");
        let module = module(&[from], to, "reshape", None);
        let found = output_to_input(&module, root(&module));
        let found = simplified(&found[0].maps.as_ref().expect("a map")[0]);
        let text = found.display(tegula_expr::Style::Document).to_string();
        assert!(text.contains(map), "{text}");
    }
}

#[test]
fn run_time_offsets() {
    check(
        &["f32[?,7]", "s32[]", "s32[]"],
        "f32[2,3]",
        "dynamic-slice , dynamic_slice_sizes={2,3}",
    );
    check(
        &["f32[?,3]", "f32[2,2]", "s32[]", "s32[]"],
        "f32[?,3]",
        "dynamic-update-slice",
    );
    let gather = "gather , offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}";
    check(&["f32[4,3]", "s32[?,1]"], "f32[?,3]", gather);
    check(&["f32[?,3]", "s32[2,1]"], "f32[2,3]", gather);
    // The limit is a term, for code that clamps the offset.
    let module = module(
        &["f32[?]", "s32[]"],
        "f32[2]",
        "dynamic-slice , dynamic_slice_sizes={2}",
        None,
    );
    let found = output_to_input(&module, root(&module));
    let map = &found[0].maps.as_ref().expect("a map")[0];
    let offset = map
        .runtime
        .iter()
        .find(|r| matches!(r.source, Some(RuntimeSource::Element { .. })));
    let most = offset.and_then(|r| r.upper_bound.clone()).expect("a limit");
    let names = |var: Var| map.name(var);
    let text = most
        .display(&names, tegula_expr::Style::Document)
        .to_string();
    assert_eq!(text, "rt0 - 2");
}

#[test]
fn contractions_and_windows() {
    check(
        &["f32[?,3]", "f32[3,4]"],
        "f32[?,4]",
        "dot , lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    );
    check(
        &["f32[2,?]", "f32[?,2]"],
        "f32[2,2]",
        "dot , lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    );
    check(
        &["f32[?,3]", "f32[]"],
        "f32[?]",
        "reduce , dimensions={1}, to_apply=add",
    );
    check(
        &["f32[?,3]", "f32[]"],
        "f32[3]",
        "reduce , dimensions={0}, to_apply=add",
    );
    check(
        &["f32[?,7]", "f32[]"],
        "f32[?,3]",
        "reduce-window , window={size=1x3 stride=1x2}, to_apply=add",
    );
    check(
        &["f32[?,5]", "f32[]"],
        "f32[?,5]",
        "reduce-window , window={size=3x1 pad=1_1x0_0}, to_apply=add",
    );
    check(
        &["f32[?,2,4]", "f32[3,2,2]"],
        "f32[?,3,4]",
        "convolution , window={size=2 pad=1_0}, dim_labels=bf0_oi0->bf0",
    );
}

#[test]
fn fusions() {
    let text = "HloModule m
f {
  a = f32[?,8] parameter(0)
  t = f32[8,?] transpose(a), dimensions={1,0}
  b = f32[?,8] transpose(t), dimensions={1,0}
  ROOT s = f32[?,8] add(a, b)
}
ENTRY e {
  p = f32[?,8] parameter(0)
  ROOT r = f32[?,8] fusion(p), kind=kLoop, calls=f
}
";
    let module = parse_module(text).expect("a module");
    let found = fusion_output_to_input(&module, root(&module), 0, &mut Simplifier::new());
    let maps = found[0].maps.as_ref().expect("maps");
    assert_eq!(maps.len(), 1, "{maps:?}");
    assert_eq!(maps[0].runtime.len(), 1, "{}", maps[0]);
    let size = &maps[0].runtime[0].source;
    let own = module[module.entry_computation().parameters[0]]
        .shape
        .as_array()
        .expect("an array")
        .dims[0]
        .term();
    assert_eq!(*size, Some(RuntimeSource::Size(own)));
}
