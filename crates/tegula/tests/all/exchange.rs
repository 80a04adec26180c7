//! Exchange with other libraries: views of `ndarray`, and serialisation with `serde`.

use serde_json::{from_value, to_value};
use tegula_ir::Layout;

#[test]
fn maps_layouts_and_plans_are_data() {
    let module: tegula::Module = "HloModule data
        ENTRY main {
          x = f32[4,8]{0,1:T(2,4)} parameter(0)
          one = f32[8] constant({1,2,3,4,5,6,7,8})
          b = f32[4,8] broadcast(one), dimensions={1}
          ROOT y = f32[4,8] add(x, b)
        }"
    .parse()
    .expect("a program");
    let plan = tegula::plan(&module).expect("a plan").plan;
    let value = to_value(&plan).expect("data");
    let back: tegula_plan::Plan = from_value(value).expect("a plan again");
    assert_eq!(back, plan);
    from_value::<tegula_plan::Plan>("plan of nothing".into()).expect_err("no plan");

    let map: tegula_indexing::IndexingMap =
        "(d0, d1) -> (d1, d0 mod 4), domain: d0 in [0, 7], d1 in [0, 3]"
            .parse()
            .expect("a map");
    let value = to_value(&map).expect("data");
    assert_eq!(
        from_value::<tegula_indexing::IndexingMap>(value).expect("a map again"),
        map
    );

    let parameter = module.entry_computation().parameters[0];
    let layout = module[parameter]
        .shape
        .as_array()
        .and_then(|a| a.layout.as_deref().cloned());
    let layout = layout.expect("it states one");
    let value = to_value(&layout).expect("data");
    assert_eq!(from_value::<Layout>(value).expect("a layout again"), layout);
}

#[test]
fn a_result_is_a_view() {
    let module: tegula::Module = "HloModule view
        ENTRY main { x = f32[2,3] parameter(0) ROOT y = f32[3,2] transpose(x), dimensions={1,0} }"
        .parse()
        .expect("a program");
    let executable = tegula::Compiler::new(tegula::Target::Cpu).compile(&module);
    let x = ndarray::array![[1.0_f32, 2.0, 3.0], [4.0, 5.0, 6.0]];
    let input = tegula::Tensor::from_ndarray(&x).expect("an array");
    let results = executable
        .expect("it compiles")
        .run([&input])
        .expect("it runs");
    assert_eq!(results[0].view::<f32>().expect("f32"), x.t().into_dyn());
}
