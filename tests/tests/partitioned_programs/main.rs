//! Random programs with random meshes and shardings, partitioned, and evaluated on all devices at
//! once: put together, the results are those of the whole program, to the bit. `TEGULA_SWEEP` says
//! how many programs and `TEGULA_FIRST` from which seed; `TEGULA_SEED` runs one.

mod exchanges;

use std::sync::{Arc, Mutex};
use std::time::Duration;
use tegula_devices::Topology;
use tegula_interp::{Options, Value, evaluate, evaluate_devices};
use tegula_ir::{ArrayShape, ElementType, Literal, Module, Op, Scalar};
use tegula_partition::{
    CallPartitioner, Calls, Cut, CutCall, Partitioned, Sharding, WholeCall, partition,
};
use tegula_tests::random::{Random, Regime, random_program};
use tegula_tests::shardings::{annotate, same};

/// Programs when nothing else is asked for.
const PROGRAMS: u64 = 250;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// A mesh of up to 8 devices.
fn mesh(random: &mut Random) -> Vec<i64> {
    let meshes: [&[i64]; 8] = [
        &[2],
        &[4],
        &[2, 2],
        &[8],
        &[2, 4],
        &[4, 2],
        &[2, 2, 2],
        &[3],
    ];
    random.pick(&meshes).to_vec()
}

/// What the devices give, put together.
fn results(
    partitioned: &Partitioned,
    inputs: &[Literal],
    module: &Module,
) -> Result<Vec<Literal>, String> {
    let devices = partitioned
        .parameters
        .first()
        .or(partitioned.results.first())
        .map_or(1, Sharding::devices);
    let arguments: Result<Vec<Vec<Value>>, String> = (0..devices)
        .map(|device| {
            let pairs = inputs.iter().zip(&partitioned.parameters);
            pairs
                .map(|(input, sharding)| {
                    sharding
                        .part_of(input, device)
                        .map(Value::Array)
                        .map_err(|e| e.to_string())
                })
                .collect()
        })
        .collect();
    let topology = Topology {
        replicas: 1,
        partitions: devices,
    };
    let given = evaluate_devices(
        &partitioned.module,
        topology,
        &arguments?,
        &Options::default(),
        Duration::from_secs(60),
    );
    let given = given.map_err(|error| error.to_string())?;
    let leaves: Vec<Vec<Literal>> = given
        .iter()
        .map(|value| value.leaves().into_iter().cloned().collect())
        .collect();
    let mut shapes = Vec::new();
    module[module.entry_computation().root]
        .shape
        .for_each_leaf(&mut |leaf| shapes.extend(leaf.as_array().cloned()));
    let wholes =
        shapes
            .iter()
            .zip(&partitioned.results)
            .enumerate()
            .map(|(at, (shape, sharding))| {
                let parts: Vec<Literal> = leaves.iter().map(|leaves| leaves[at].clone()).collect();
                sharding
                    .whole_of(&parts, shape)
                    .map_err(|error| error.to_string())
            });
    wholes.collect()
}

fn check(seed: u64) -> Result<(), String> {
    let program = random_program(seed, Regime::Dyadic);
    let mut random = Random::new(seed ^ 0x5A4D);
    let mesh = mesh(&mut random);
    let mut module = tegula_tests::read(&program.text).map_err(|error| error.to_string())?;
    // Of a program for one device it is 0; of a partitioned one, who runs it.
    let own_number = |op: &Op| matches!(op, Op::PartitionId);
    if module
        .instructions
        .values()
        .any(|instruction| own_number(&instruction.op))
    {
        return Ok(());
    }
    let arguments: Vec<Value> = program.inputs.iter().cloned().map(Value::Array).collect();
    let expected = evaluate(&module, &arguments).map_err(|error| format!("interp: {error}"))?;
    annotate(&mut module, &mut random, &mesh);
    let fail = |what: &str, more: &str| {
        Err(format!(
            "seed {seed}, mesh {mesh:?}: {what}\n{module}\n{more}"
        ))
    };
    let partitioned = match partition(&module, &tegula_partition::Options::default()) {
        Ok(partitioned) => partitioned,
        Err(error) => return fail(&error.to_string(), ""),
    };
    let actual = match results(&partitioned, &program.inputs, &module) {
        Ok(actual) => actual,
        Err(error) => return fail(&error, &partitioned.module.to_string()),
    };
    let expected: Vec<Literal> = expected.leaves().into_iter().cloned().collect();
    for (at, (actual, expected)) in actual.iter().zip(&expected).enumerate() {
        if !same(actual, expected) {
            let text = format!(
                "{}\nexpected {expected}\nfound {actual}",
                partitioned.module
            );
            return fail(&format!("result {at} differs"), &text);
        }
    }
    match actual.len() == expected.len() {
        true => Ok(()),
        false => fail("another number of results", ""),
    }
}

#[test]
fn partitioned_programs_give_the_same() {
    let first = number("TEGULA_FIRST").unwrap_or(0);
    let seeds: Vec<u64> = match number("TEGULA_SEED") {
        Some(seed) => vec![seed],
        None => (first..first + number("TEGULA_SWEEP").unwrap_or(PROGRAMS)).collect(),
    };
    let total = seeds.len();
    let mut failed = Vec::new();
    for seed in seeds {
        if let Err(error) = check(seed) {
            failed.push(error);
        }
    }
    for error in failed.iter().take(3) {
        eprintln!("{error}\n----");
    }
    let heads: Vec<&str> = failed
        .iter()
        .filter_map(|error| error.lines().next())
        .collect();
    assert!(
        failed.is_empty(),
        "{} of {total} programs fail:\n{}",
        failed.len(),
        heads.join("\n")
    );
}

/// Every shift of a dimension in 2, 4 and 8 parts; only permutes are needed.
#[test]
fn rotations_are_permutes() {
    for parts in [2_usize, 4, 8] {
        for shift in 1..16 {
            let (cut, mesh) = (16 - shift, parts * 2);
            let text = format!(
                "HloModule rotation, num_partitions={mesh}\n\nENTRY e {{\n  \
                 x = s32[16,3]{{1,0}} parameter(0), sharding={{devices=[{parts},1,2]<=[{mesh}] last_tile_dim_replicate}}\n  \
                 end = s32[{shift},3]{{1,0}} slice(x), slice={{[{cut}:16],[0:3]}}\n  \
                 start = s32[{cut},3]{{1,0}} slice(x), slice={{[0:{cut}],[0:3]}}\n  \
                 turned = s32[16,3]{{1,0}} concatenate(end, start), dimensions={{0}}, sharding={{devices=[{parts},1,2]<=[{mesh}] last_tile_dim_replicate}}\n  \
                 ROOT sum = s32[16,3]{{1,0}} add(x, turned), sharding={{devices=[{parts},1,2]<=[{mesh}] last_tile_dim_replicate}}\n}}\n"
            );
            let module = tegula_ir::parse_module(&text).expect("a module");
            let numbers: Vec<i32> = (0..48).map(|n| n * n - 7 * n).collect();
            let x = Literal::from_values(&[16, 3], &numbers).expect("an array");
            let expected = evaluate(&module, &[Value::Array(x.clone())]).expect("it runs");
            let partitioned = partition(&module, &tegula_partition::Options::default());
            let partitioned = partitioned.expect("it is cut");
            let program = partitioned.module.to_string();
            assert!(program.contains("collective-permute"), "{program}");
            assert!(!program.contains("all-gather"), "{program}");
            let found = results(&partitioned, &[x], &module).expect("it runs");
            let expected: Vec<Literal> = expected.leaves().into_iter().cloned().collect();
            assert!(same(&found[0], &expected[0]), "{parts} {shift}\n{program}");
        }
    }
}

/// Cuts calls of `product` along the sum, whatever was found: each device multiplies its part of
/// it.
struct AlongTheSum;

impl CallPartitioner for AlongTheSum {
    fn is_for(&self, target: &str) -> bool {
        target == "product"
    }

    fn cut(&self, call: &WholeCall<'_>) -> Result<CutCall, String> {
        assert_eq!((call.target, call.config), ("product", "of two"));
        let program = "HloModule one_device
            add { a = f32[] parameter(0)
                b = f32[] parameter(1)
                ROOT c = f32[] add(a, b) }
            ENTRY main { x = f32[3,4] parameter(0)
                y = f32[4,5] parameter(1)
                own = f32[3,5] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
                sum = f32[3,5] all-reduce(own), channel_id=1, replica_groups={{0,1}},
                    use_global_device_ids=true, to_apply=add
                ROOT both = (f32[3,5], f32[3,5]) tuple(sum, own) }";
        let halves = Cut::new(2, vec![0, 1]);
        let whole = Sharding::replicated(2, 2);
        Ok(CutCall {
            program: tegula_tests::read(program).map_err(|error| error.to_string())?,
            operands: vec![
                Sharding::new(2, [None, halves.clone()]),
                Sharding::new(2, [halves, None]),
            ],
            results: vec![whole.clone(), whole],
        })
    }
}

/// A program whose first parameter is cut along its rows, with a call of `product`.
fn with_a_call(attributes: &str) -> Module {
    let text = format!(
        "HloModule calls, num_partitions=2
        ENTRY main {{ x = f32[3,8] parameter(0), sharding={{devices=[2,1]<=[2]}}
            y = f32[8,5] parameter(1)
            both = (f32[3,5], f32[3,5]) custom-call(x, y), custom_call_target=\"product\"{attributes}
            ROOT sum = f32[3,5] get-tuple-element(both), index=0 }}"
    );
    tegula_tests::read(&text).expect("a valid program")
}

#[test]
fn custom_calls_are_cut_by_their_partitioner() {
    let module = with_a_call(", backend_config=\"of two\"");
    let options = tegula_partition::Options {
        calls: Calls::new(Arc::new(AlongTheSum)),
        ..tegula_partition::Options::default()
    };
    let partitioned = partition(&module, &options).expect("the call is cut");
    let numbers = |rows, columns| {
        let shape = ArrayShape::new(ElementType::F32, &[rows, columns]);
        let numbers = (0..rows * columns).map(|i| Scalar::Float((i % 7) as f64));
        Literal::from_scalars(&shape, numbers).expect("as many numbers")
    };
    let inputs = [numbers(3, 8), numbers(8, 5)];
    let expected = tegula_tests::read(
        "HloModule whole
        ENTRY main { x = f32[3,8] parameter(0)
            y = f32[8,5] parameter(1)
            ROOT z = f32[3,5] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
    );
    let arguments: Vec<Value> = inputs.iter().cloned().map(Value::Array).collect();
    let expected = evaluate(&expected.expect("a valid program"), &arguments).expect("it runs");
    let actual = results(&partitioned, &inputs, &module).expect("it runs");
    let [actual] = &actual[..] else {
        panic!("one result, not {}", actual.len());
    };
    assert!(same(actual, expected.leaves()[0]), "{}", partitioned.module);
}

#[test]
fn programs_that_do_not_fit_their_call_are_refused() {
    /// Gives the program of `AlongTheSum` with other shardings.
    struct Wrong(fn(&mut CutCall));
    impl CallPartitioner for Wrong {
        fn is_for(&self, target: &str) -> bool {
            AlongTheSum.is_for(target)
        }
        fn cut(&self, call: &WholeCall<'_>) -> Result<CutCall, String> {
            let mut cut = AlongTheSum.cut(call)?;
            (self.0)(&mut cut);
            Ok(cut)
        }
    }
    let refused = |change: fn(&mut CutCall)| {
        let options = tegula_partition::Options {
            calls: Calls::new(Arc::new(Wrong(change))),
            ..tegula_partition::Options::default()
        };
        let module = with_a_call(", backend_config=\"of two\"");
        let refused = partition(&module, &options).map(|_| ());
        refused.expect_err("it does not fit").to_string()
    };
    let failed = "`both`: its custom partitioning failed: ";
    assert_eq!(
        refused(|cut| cut.operands.swap(0, 1)),
        format!("{failed}its program takes f32[3,4], f32[4,5], expected f32[2,8], f32[8,3]"),
    );
    assert_eq!(
        refused(|cut| cut.results.truncate(1)),
        format!("{failed}expected 2 shardings of results, found 1"),
    );
    assert_eq!(
        refused(|cut| cut.results[1] = Sharding::replicated(1, 2)),
        format!(
            "{failed}expected a sharding of 2 dimensions for result 1, found one of 1 dimensions"
        ),
    );
}

#[test]
fn rules_say_which_dimensions_of_a_call_go_together() {
    /// Says how it finds the arrays cut.
    struct Refuses;
    impl CallPartitioner for Refuses {
        fn is_for(&self, target: &str) -> bool {
            target == "product"
        }
        fn cut(&self, call: &WholeCall<'_>) -> Result<CutCall, String> {
            let pairs = call.operands.iter().chain(&call.results);
            let cuts = pairs.map(|(_, sharding)| sharding.to_string());
            Err(cuts.collect::<Vec<String>>().join(", "))
        }
    }
    let options = tegula_partition::Options {
        calls: Calls::new(Arc::new(Refuses)),
        ..tegula_partition::Options::default()
    };
    let refused = |rule: &str| {
        let rule = format!(
            ", frontend_attributes={{xla.sdy.sharding_rule=\"#sdy.op_sharding_rule<{rule}>\"}}"
        );
        partition(&with_a_call(&rule), &options)
            .map(|_| ())
            .expect_err("it refuses")
            .to_string()
    };
    let found = |sum: &str| {
        let rows = "{devices=[2,1]<=[2]}";
        let cuts = [rows, "{replicated}", sum, sum].join(", ");
        format!("`both`: its custom partitioning failed: {cuts}")
    };
    let along_rows = found("{devices=[2,1]<=[2]}");
    let nothing = found("{replicated}");
    assert_eq!(refused("([i, j], [j, k])->([i, k], [i, k])"), along_rows);
    let whole = "([i, j], [j, k])->([i, k], [i, k]) need_replication={i}";
    assert_eq!(refused(whole), nothing);
}

#[test]
fn programs_are_told_how_an_array_is_cut() {
    /// Keeps what it is told, and refuses what is asked of "nobody".
    struct Told(Mutex<Vec<String>>);
    impl CallPartitioner for Told {
        fn is_for(&self, _target: &str) -> bool {
            false
        }
        fn cut(&self, _call: &WholeCall<'_>) -> Result<CutCall, String> {
            Err("there is nothing to cut".to_owned())
        }
        fn inspect(&self, config: &str, sharding: Option<&Sharding>) -> Result<(), String> {
            if config == "nobody" {
                return Err("nobody is there".to_owned());
            }
            let sharding = sharding.map_or("manual".to_owned(), ToString::to_string);
            let mut told = self.0.lock().expect("no test fails with it");
            told.push(format!("{config}: {sharding}"));
            Ok(())
        }
    }
    let module = |config: &str| {
        let text = format!(
            "HloModule asks, num_partitions=2
            ENTRY main {{ x = f32[4,8] parameter(0), sharding={{devices=[2,1]<=[2]}}
                y = f32[4,8] negate(x)
                seen = f32[4,8] custom-call(y), custom_call_target=\"InspectSharding\",
                    custom_call_has_side_effect=true, backend_config=\"{config}\"
                ROOT z = f32[4,8] exponential(y) }}"
        );
        tegula_tests::read(&text).expect("a valid program")
    };
    let told = Arc::new(Told(Mutex::default()));
    let options = tegula_partition::Options {
        calls: Calls::new(Arc::clone(&told) as Arc<dyn CallPartitioner>),
        ..tegula_partition::Options::default()
    };
    let partitioned = partition(&module("y"), &options).expect("it is cut");
    let told = told.0.lock().expect("no test fails with it").clone();
    assert_eq!(told, ["y: {devices=[2,1]<=[2]}"]);
    let program = partitioned.module.to_string();
    assert!(!program.contains("custom-call"), "{program}");
    let refused = partition(&module("nobody"), &options).map(|_| ());
    assert_eq!(
        refused.expect_err("it fails").to_string(),
        "`seen`: the handler that inspects its operand's sharding failed: nobody is there"
    );
}
