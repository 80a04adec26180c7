//! The facade: modules with names and sizes, custom calls of a compiler, errors that show their
//! line, and executables that several threads share.

use tegula::{Compiler, ErrorKind, Executable, Module, Size, Target, Tensor};

const OPEN: &str = "HloModule open
ENTRY main {
  rows = f32[?,2] parameter(0)
  scale = f32[] parameter(1)
  scales = f32[?,2] broadcast(scale), dimensions={}
  ROOT scaled = f32[?,2] multiply(rows, scales)
}";

const CUSTOM: &str = "HloModule custom
ENTRY main {
  x = f32[3] parameter(0)
  ROOT y = f32[3] custom-call(x), custom_call_target=\"facade_add\"
}";

/// A compiler whose custom call adds a number.
fn adds(target: Target, number: f32) -> Compiler {
    Compiler::new(target).custom_call("facade_add", move |_, inputs, _| {
        let x = inputs[0].as_slice::<f32>().ok_or("only f32")?;
        let sums: Vec<f32> = x.iter().map(|x| x + number).collect();
        Ok(vec![Tensor::from_slice(&inputs[0].dims(), &sums)?])
    })
}

#[test]
fn executables_and_modules_are_shared_by_threads() {
    fn shared<T: Send + Sync + std::fmt::Debug>() {}
    shared::<Module>();
    shared::<Compiler>();
    shared::<Tensor>();
    fn sent<T: Send + Sync>() {}
    sent::<Executable>();
    let module: Module = OPEN.parse().expect("a program");
    let executable = Compiler::new(Target::Cpu)
        .compile(&module)
        .expect("compiled");
    std::thread::scope(|scope| {
        for rows in 0..4_i64 {
            let executable = &executable;
            scope.spawn(move || {
                let x = vec![1.5_f32; rows as usize * 2];
                let x = Tensor::from_slice(&[rows, 2], &x).expect("an array");
                let y = executable
                    .run([&x, &Tensor::scalar(2.0_f32)])
                    .expect("it runs");
                assert_eq!(y[0].dims(), [rows, 2]);
                assert_eq!(y[0].as_slice(), Some(&vec![3.0_f32; rows as usize * 2][..]));
            });
        }
    });
}

#[test]
fn signatures_have_names_and_sizes_and_sizes_are_bound() {
    let module: Module = OPEN.parse().expect("a program");
    let shown: Vec<String> = module.inputs().iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["rows: f32[p0_d0,2]", "scale: f32[]"]);
    assert_eq!(module.outputs()[0].to_string(), "out0: f32[p0_d0,2]");
    assert_eq!(module.inputs()[0].sizes()[1], Size::Known(2));
    let bound = module.bind_sizes(&[("p0_d0", 4)]).expect("a size");
    assert_eq!(bound.inputs()[0].to_string(), "rows: f32[4,2]");
    let executable = Compiler::new(Target::Cpu)
        .compile(&bound)
        .expect("compiled");
    assert_eq!(executable.inputs(), bound.inputs());
    let error = module
        .bind_sizes(&[("nothing", 4)])
        .expect_err("no such size");
    assert_eq!(error.kind, ErrorKind::Input);
}

#[test]
fn custom_calls_belong_to_their_compiler() {
    let module: Module = CUSTOM.parse().expect("a program");
    let x = Tensor::from_slice(&[3], &[1.0_f32, 2.0, 3.0]).expect("an array");
    for target in [Target::Cpu, Target::Interp, Target::Plan] {
        for number in [1.0, 10.0] {
            let executable = adds(target, number).compile(&module).expect("compiled");
            let y = executable.run([&x]).expect("it runs");
            assert_eq!(
                y[0].as_slice::<f32>().expect("f32")[0],
                1.0 + number,
                "{target:?}"
            );
        }
    }
    // Other compilers do not have the handler.
    let error = Compiler::new(Target::Cpu)
        .compile(&module)
        .expect_err("unknown");
    assert!(error.to_string().contains("facade_add"), "{error}");
    let twice = adds(Target::Cpu, 1.0).custom_call("facade_add", |_, _, _| Ok(Vec::new()));
    assert!(twice.compile(&module).is_err());
}

#[test]
fn errors_show_the_line() {
    let text =
        "HloModule wrong\nENTRY main {\n  x = f32[3] parameter(0)\n  ROOT y = f32[4] negate(x)\n}";
    let error = text
        .parse::<Module>()
        .expect_err("sizes differ")
        .to_string();
    assert!(error.contains("--> the program:4:"), "{error}");
    assert!(error.contains("4 |   ROOT y = f32[4] negate(x)"), "{error}");
    let missing = Module::read("no/such/file.hlo").expect_err("no file");
    assert!(
        missing.to_string().contains("no/such/file.hlo"),
        "{missing}"
    );
}
