//! Collectives of a program for one device return the device's own arrays.

use tegula::{Arg, ArrayShape, Literal, Options, Target, Tensor, compile};
use tegula_ir::{ElementType, Scalar};

const TARGETS: [Target; 3] = [Target::Interp, Target::Plan, Target::Cpu];

fn run(text: &str, target: Target) -> Result<Vec<Literal>, String> {
    let module = text
        .parse::<tegula::Module>()
        .map_err(|error| error.to_string())?;
    let options = Options {
        target,
        ..Options::default()
    };
    let shape = ArrayShape::new(ElementType::F32, &[2, 3]);
    let numbers = (0..6).map(|n| Scalar::Float(f64::from(n)));
    let numbers = Literal::from_scalars(&shape, numbers).map_err(|error| error.to_string())?;
    let executable = compile(&module, &options).map_err(|error| error.to_string())?;
    let results = executable.run(vec![Arg::Donated(numbers.into())]);
    let results = results.map_err(|error| error.to_string())?;
    Ok(results.into_iter().map(Tensor::into_literal).collect())
}

#[test]
fn collectives_give_operands_back() {
    let text = "HloModule m
        f { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT s = f32[] add(p, q) }
        ENTRY e { x = f32[2,3] parameter(0)
          n = f32[2,3] negate(x)
          a = f32[2,3] all-reduce(n), replica_groups={{0}}, to_apply=f
          b = f32[2,3] all-gather(a), replica_groups={}, dimensions={1}
          c = f32[2,3] reduce-scatter(b), replica_groups={{0}}, dimensions={0}, to_apply=f
          d = f32[2,3] all-to-all(c), replica_groups={{0}}, dimensions={0}
          t = (f32[2,3]) all-to-all(d), replica_groups={{0}}
          u = f32[2,3] get-tuple-element(t), index=0
          g = f32[2,3] collective-permute(u), source_target_pairs={{0,0}}
          h = (f32[2,3], f32[2,3]) all-reduce(g, x), replica_groups={{0}}, to_apply=f
          i = f32[2,3] get-tuple-element(h), index=0
          j = f32[2,3] get-tuple-element(h), index=1
          k = u32[] partition-id()
          l = f32[] convert(k)
          m = f32[2,3] broadcast(l), dimensions={}
          ROOT r = (f32[2,3], f32[2,3], f32[2,3]) tuple(i, j, m) }";
    for target in TARGETS {
        let results = run(text, target).unwrap_or_else(|error| panic!("{target:?}: {error}"));
        let values: Vec<&[f32]> = results.iter().filter_map(Literal::as_f32s).collect();
        assert_eq!(
            values,
            [
                &[-0., -1., -2., -3., -4., -5.],
                &[0., 1., 2., 3., 4., 5.],
                &[0.; 6]
            ],
            "{target:?}"
        );
    }
}

#[test]
fn a_program_of_several_devices_is_refused() {
    let program = |header: &str, groups: &str| {
        format!(
            "HloModule m{header}
             f {{ p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT s = f32[] add(p, q) }}
             ENTRY e {{ x = f32[2,3] parameter(0)
               ROOT a = f32[2,3] all-reduce(x), replica_groups={groups}, to_apply=f }}"
        )
    };
    for text in [
        program(", replica_count=2", "{}"),
        program(", num_partitions=8", "{{0}}"),
        program("", "{{0,1}}"),
    ] {
        for target in TARGETS {
            let error = run(&text, target).expect_err("it names other devices");
            assert!(error.contains("device"), "{target:?}: {error}");
        }
    }
}
