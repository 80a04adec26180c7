//! Conversion of StableHLO to `tegula_ir` modules and back.

use super::{PROGRAMS, data};
use tegula_ir::{PrintStyle, infer_symbolic_dims, print_module, verify};
use tegula_stablehlo::{Form, from_module, print, read, to_module};

fn lowered(name: &str) -> tegula_ir::Module {
    let module = read(data(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let module = to_module(&module).unwrap_or_else(|error| panic!("{name}: {error}"));
    verify(&module).unwrap_or_else(|errors| panic!("{name}: {}", errors[0]));
    module
}

#[test]
fn every_form_of_a_program_gives_the_same_module() {
    let short = |name: &str| {
        // Values keep the names that they have in the text.
        let text = print(&read(data(name)).expect(name), Form::Generic);
        let module = to_module(&read(text.into_bytes()).expect(name)).expect(name);
        print_module(&module, PrintStyle::Short)
    };
    assert_eq!(short("mixed.mlir"), short("mixed_newest.mlirbc"));
    assert_eq!(
        short("mixed_unversioned.mlirbc"),
        short("mixed_newest.mlirbc")
    );
}

#[test]
fn modules_written_as_stablehlo_read_back_as_themselves() {
    let is_whole = |name: &&&str| !name.contains("symbolic") && !name.contains("sharded");
    for name in PROGRAMS.iter().filter(is_whole) {
        let module = lowered(name);
        let raised = from_module(&module).unwrap_or_else(|error| panic!("{name}: {error}"));
        let text = print(&raised, Form::Pretty);
        let again = read(text.clone().into_bytes())
            .and_then(|module| to_module(&module))
            .unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
        verify(&again).unwrap_or_else(|errors| panic!("{name}: {}", errors[0]));
        // Converting again changes nothing.
        let second = print(&from_module(&again).expect(name), Form::Pretty);
        assert_eq!(second, text, "{name}");
    }
}

#[test]
fn symbolic_sizes_become_terms_over_the_inputs() {
    let mut module = lowered("symbolic.jaxexport");
    infer_symbolic_dims(&mut module, &[]).expect("the sizes are related");
    verify(&module).unwrap_or_else(|errors| panic!("{}", errors[0]));
    let names: Vec<&str> = module.symbols.iter().map(|symbol| &*symbol.name).collect();
    assert_eq!(names[..2], ["p0_d0", "p1_d0"]);
    let root = &module[module.entry_computation().root].shape;
    let spelled = tegula_ir::display_shape(root, &module.symbols);
    assert!(spelled.contains("p0_d0"), "{spelled}");
    let asserts = module
        .sizes
        .guards
        .iter()
        .filter(|guard| guard.message.is_some());
    assert!(asserts.count() > 0, "jax's assertions are kept");
}

#[test]
fn arguments_keep_their_names_donations_and_places() {
    let text = "func.func @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %b: \
                tensor<4xf32> {jax.buffer_donor = true}) -> tensor<4xf32> {\n  %sum = \
                stablehlo.add %a, %b : tensor<4xf32> loc(\"my_sum\"(\"model.py\":7:1))\n  return \
                %sum : tensor<4xf32>\n}";
    let module = to_module(&read(text.as_bytes().to_vec()).expect("reads")).expect("translates");
    let attributes = &module.attributes;
    assert_eq!(attributes.input_output_alias.len(), 1);
    assert_eq!(attributes.buffer_donor, [(1, Vec::new())]);
    let entry = module.entry_computation();
    let names: Vec<&str> = entry
        .instructions
        .iter()
        .map(|id| &*module[*id].name)
        .collect();
    assert_eq!(names, ["a", "b", "sum"]);
    let metadata = module[entry.root]
        .annotations
        .as_ref()
        .and_then(|a| a.metadata.clone());
    let metadata = metadata.expect("where it came from");
    assert_eq!(metadata.op_name.as_deref(), Some("my_sum"));
    assert_eq!(metadata.source_line, Some(7));
}

#[test]
fn loops_and_branches_take_what_they_read_from_around_them() {
    let text = "func.func @main(%n: tensor<i32>, %step: tensor<i32>) -> tensor<i32> {\n  %zero = \
                stablehlo.constant dense<0> : tensor<i32>\n  %r = stablehlo.while(%i = %zero) : \
                tensor<i32>\n  cond {\n    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, \
                tensor<i32>) -> tensor<i1>\n    stablehlo.return %c : tensor<i1>\n  } do {\n    \
                %j = stablehlo.add %i, %step : tensor<i32>\n    stablehlo.return %j : \
                tensor<i32>\n  }\n  return %r : tensor<i32>\n}";
    let module = to_module(&read(text.as_bytes().to_vec()).expect("reads")).expect("translates");
    verify(&module).unwrap_or_else(|errors| panic!("{}", errors[0]));
    let printed = print_module(&module, PrintStyle::Short);
    assert!(
        printed.contains("(s32[], s32[], s32[]) while("),
        "{printed}"
    );
}

#[test]
fn sizes_that_are_computed_from_constants_are_known() {
    let text = "func.func @main(%x: tensor<6xf32>) -> tensor<2x3xf32> {\n  %two = \
                stablehlo.constant dense<2> : tensor<1xi32>\n  %one = stablehlo.constant dense<1> \
                : tensor<1xi32>\n  %three = stablehlo.add %two, %one : tensor<1xi32>\n  %sizes = \
                stablehlo.concatenate %two, %three, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> \
                tensor<2xi32>\n  %y = stablehlo.dynamic_reshape %x, %sizes : (tensor<6xf32>, \
                tensor<2xi32>) -> tensor<2x3xf32>\n  return %y : tensor<2x3xf32>\n}";
    let module = to_module(&read(text.as_bytes().to_vec()).expect("reads")).expect("translates");
    verify(&module).unwrap_or_else(|errors| panic!("{}", errors[0]));
    let root = &module[module.entry_computation().root].shape;
    assert_eq!(root.to_string(), "f32[2,3]");
}

#[test]
fn manual_computations_are_kept_for_a_partitioner() {
    let module = read(data("sharded.jaxexport")).expect("reads");
    let text = print(&module, Form::Pretty);
    for written in [
        "mesh = #sdy.mesh<[\"x\"=4, \"y\"=2]>",
        "sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}, {}]>",
        "sdy.sharding = #sdy.sharding<@mesh, [{}, {\"x\", \"y\"}]>",
        "in_shardings = #sdy.sharding_per_value<[<@mesh, [{\"x\"}, {\"y\"}]>]>",
        "manual_axes = #sdy<manual_axes{\"x\", \"y\"}>",
        "#stablehlo.replica_group_mesh_axes<mesh = @mesh_0, axes = [#stablehlo.axis_ref<name = \"y\">]>",
    ] {
        assert!(text.contains(written), "{written} is not in\n{text}");
    }
    let module = to_module(&module).expect("lowers");
    verify(&module).unwrap_or_else(|errors| panic!("{}", errors[0]));
    let hlo = print_module(&module, PrintStyle::Canonical);
    for written in [
        "custom_call_target=\"xla.sdy.GlobalToLocalShape\", custom_call_has_side_effect=true",
        "xla.sdy.in_shardings=\"#sdy.sharding_per_value<[<@mesh, [{\\\"x\\\"}, {\\\"y\\\"}]>]>\"",
        "xla.sdy.manual_axes=\"#sdy<manual_axes{\\\"x\\\", \\\"y\\\"}>\"",
        "to_apply=%xla.sdy.manual_computation_body",
        "custom_call_target=\"xla.sdy.LocalToGlobalShape\", custom_call_has_side_effect=true",
    ] {
        assert!(hlo.contains(written), "{written} is not in\n{hlo}");
    }
}

#[test]
fn layouts_shardings_and_meshes_of_the_entry_are_kept() {
    let text = "sdy.mesh @m = <[\"x\"=2]>
        func.func @main(
            %a: tensor<2x3xf32> {mhlo.layout_mode = \"{0,1}\", sdy.sharding = #sdy.sharding<@m, [{\"x\"}, {}]>},
            %b: tensor<2x3xf32> {mhlo.layout_mode = \"default\", mhlo.sharding = \"{devices=[2,1]<=[2]}\"}
        ) -> (tensor<2x3xf32> {mhlo.layout_mode = \"{1,0}\"}) {
            %c = \"stablehlo.all_reduce\"(%a) <{replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @m, axes = [#stablehlo.axis_ref<name = \"x\">]>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}> ({
            ^bb0(%x: tensor<f32>, %y: tensor<f32>):
                %z = stablehlo.add %x, %y : tensor<f32>
                stablehlo.return %z : tensor<f32>
            }) : (tensor<2x3xf32>) -> tensor<2x3xf32>
            return %c : tensor<2x3xf32>
        }";
    let module = to_module(&read(text.as_bytes().to_vec()).expect("reads")).expect("lowers");
    verify(&module).unwrap_or_else(|errors| panic!("{}", errors[0]));
    let hlo = print_module(&module, PrintStyle::Canonical);
    for written in [
        "entry_computation_layout={(f32[2,3]{0,1}, f32[2,3])->f32[2,3]{1,0}}",
        "xla.sdy.meshes=\"{m = #sdy.mesh<[\\\"x\\\"=2]>}\"",
        "xla.sdy.sharding=\"#sdy.sharding<@m, [{\\\"x\\\"}, {}]>\"",
        "sharding={devices=[2,1]<=[2]}",
        "replica_groups=[1,2]<=[2]",
    ] {
        assert!(hlo.contains(written), "{written} is not in\n{hlo}");
    }
}

#[test]
fn exchange_with_the_host_is_kept() {
    let text = "func.func @main(%t: !stablehlo.token) -> (tensor<2xf32>, !stablehlo.token) {
        %0:2 = \"stablehlo.infeed\"(%t) {infeed_config = \"\"} : (!stablehlo.token) -> (tensor<2xf32>, !stablehlo.token)
        %1 = \"stablehlo.outfeed\"(%0#0, %0#1) : (tensor<2xf32>, !stablehlo.token) -> !stablehlo.token
        %2:2 = \"stablehlo.recv\"(%1) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 3>, is_host_transfer = true} : (!stablehlo.token) -> (tensor<2xf32>, !stablehlo.token)
        %3 = \"stablehlo.send\"(%2#0, %2#1) {channel_handle = #stablehlo.channel_handle<handle = 2, type = 2>, is_host_transfer = true} : (tensor<2xf32>, !stablehlo.token) -> !stablehlo.token
        return %2#0, %3 : tensor<2xf32>, !stablehlo.token
    }";
    let module = to_module(&read(text.as_bytes().to_vec()).expect("reads")).expect("lowers");
    verify(&module).unwrap_or_else(|errors| panic!("{}", errors[0]));
    let hlo = print_module(&module, PrintStyle::Short);
    for opcode in [
        "infeed(",
        "outfeed(",
        "recv(",
        "recv-done(",
        "send(",
        "send-done(",
    ] {
        assert!(hlo.contains(opcode), "{opcode} is not in\n{hlo}");
    }
}

#[test]
fn results_in_the_place_of_operands_stay_there() {
    let stated = "output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = \
                  [1], operand_index = 0, operand_tuple_indices = []>]";
    let text = format!(
        "func.func @main(%x: tensor<3xf32>) -> (tensor<i32>, tensor<3xf32>) {{\n  %r:2 = \
         stablehlo.custom_call @f(%x) {{{stated}}} : (tensor<3xf32>) -> (tensor<i32>, \
         tensor<3xf32>)\n  return %r#0, %r#1 : tensor<i32>, tensor<3xf32>\n}}"
    );
    let module = to_module(&read(text.into_bytes()).expect("reads")).expect("translates");
    let calls = module.instructions.keys();
    let call = calls.filter_map(|id| module.custom_call_to_run(id)).next();
    let in_place: Vec<_> = call.expect("a call").in_place().collect();
    assert_eq!(in_place, [(0, 1)]);
    let raised = print(&from_module(&module).expect("raises"), Form::Pretty);
    assert!(raised.contains(stated), "{raised}");
}

/// A place in a stack of 1,000 calls, by aliases and written out: the operation keeps its name and
/// the place that was called last.
#[test]
fn deep_stacks_of_calls_are_cut_off() {
    let program = |location: &str, aliases: &str| {
        let text = format!(
            "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{\n  \
             %y = stablehlo.tanh %x : tensor<4xf32> loc({location})\n  \
             return %y : tensor<4xf32>\n}}\n{aliases}"
        );
        let module = read(text.into_bytes()).and_then(|module| to_module(&module));
        module.unwrap_or_else(|error| panic!("{error}"))
    };
    let mut aliases = String::from("#loc0 = loc(\"main.py\":1:1)\n");
    let mut written = String::from("\"main.py\":1:1");
    for call in 1..=1000 {
        let before = call - 1;
        aliases += &format!("#loc{call} = loc(callsite(\"f.py\":{call}:1 at #loc{before}))\n");
        written = format!("callsite(\"f.py\":{call}:1 at {written})");
    }
    for module in [
        program("\"tanh\"(#loc1000)", &aliases),
        program(&format!("\"tanh\"({written})"), ""),
    ] {
        let text = module.to_string();
        let place = "op_name=\"tanh\" source_file=\"f.py\" source_line=1000";
        assert!(text.contains(place), "{text}");
    }
}

#[test]
fn a_composite_of_the_largest_elements_becomes_one_operation() {
    let text = r#"
func.func @main(%x: tensor<3x9xf32>) -> (tensor<3x2xf32>, tensor<3x2xi32>) {
  %0:2 = stablehlo.composite "chlo.top_k" %x {composite_attributes = {k = 2 : i64}, decomposition = @top, version = 1 : i32} : (tensor<3x9xf32>) -> (tensor<3x2xf32>, tensor<3x2xi32>)
  return %0#0, %0#1 : tensor<3x2xf32>, tensor<3x2xi32>
}
func.func private @top(%x: tensor<3x9xf32>) -> (tensor<3x2xf32>, tensor<3x2xi32>) {
  %0 = stablehlo.slice %x [0:3, 0:2] : (tensor<3x9xf32>) -> tensor<3x2xf32>
  %1 = stablehlo.iota dim = 1 : tensor<3x2xi32>
  return %0, %1 : tensor<3x2xf32>, tensor<3x2xi32>
}"#;
    let module = read(text.as_bytes().to_vec()).expect("valid");
    let module = to_module(&module).expect("it can be translated");
    verify(&module).unwrap_or_else(|errors| panic!("{}", errors[0]));
    let text = print_module(&module, PrintStyle::Short);
    assert!(text.contains("topk(x), k=2, largest=true"), "{text}");
}

#[test]
fn a_comparator_captures_constants_whose_sharding_is_stated() {
    let text = r#"
sdy.mesh @mesh = <["x"=2]>
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %cast = "builtin.unrealized_conversion_cast"(%zero) : (tensor<f32>) -> tensor<f32>
  %stated = sdy.sharding_constraint %cast <@mesh, []> : tensor<f32>
  %c = "builtin.unrealized_conversion_cast"(%stated) : (tensor<f32>) -> tensor<f32>
  %0 = "stablehlo.sort"(%x) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.maximum %a, %c : tensor<f32>
    %2 = stablehlo.maximum %b, %c : tensor<f32>
    %3 = stablehlo.compare LT, %1, %2, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %3 : tensor<i1>
  }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}"#;
    let module = read(text.as_bytes().to_vec()).expect("valid");
    let module = to_module(&module).expect("it can be translated");
    verify(&module).unwrap_or_else(|errors| panic!("{}", errors[0]));
}
