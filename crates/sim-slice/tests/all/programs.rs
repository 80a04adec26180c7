//! Programs whose time can be computed by hand, on a chip with round numbers.

use tegula_ir::{Module, parse_module};
use tegula_sim_slice::{CollectiveKind, Options, Overlap, Report, Share, Slice, simulate};
use tegula_target::Chip;

/// 1 TFLOP/s, 1 TB/s of HBM, links of 1 GB/s, and negligible latencies.
const CHIP: &str = "
name = round
cores_per_chip = 1 count # test
cores_per_device = 1 count # test
hbm_bytes = 1 GB # test
hbm_bandwidth = 1000 GB/s # test
hbm_to_vmem_latency = 0 ns # test
vmem_to_hbm_latency = 0 ns # test
peak_bf16 = 1 TFLOP/s # test
mxu_dim = 1 count # test
clock = 1000 GHz # test
vreg_sublanes = 8 count # test
vreg_lanes = 128 count # test
ici_bandwidth = 1 GB/s # test
ici_axes = 2 count # test
ici_wrap = 4 count # test
ici_hop_latency = 0 ns # test
product_efficiency = 1 ratio # test
hbm_efficiency = 1 ratio # test
collective_overlap = 0 ratio # test
";

fn slice_of(text: &str, topology: &str) -> Slice {
    let chip = Chip::parse(text).expect("a chip");
    Slice::new(&chip, topology).expect("a topology")
}

fn module(text: &str) -> Module {
    let module = parse_module(text).expect("a module");
    tegula_ir::verify(&module).expect("a verified module");
    module
}

fn run(text: &str, overlap: Overlap) -> Report {
    let options = Options {
        overlap,
        ..Options::default()
    };
    simulate(&module(text), &slice_of(CHIP, "4"), &options).expect("it runs")
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

/// A product of 2 * 1000^3 operations, 2 ms, and an all-reduce of 4 MB over a ring of 4: 2 * 3/4 * 4 MB
/// at 2 GB/s, 3 ms.
const SYNCHRONOUS: &str = "HloModule m, num_partitions=4

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY e {
  x = f32[1000,1000]{1,0} parameter(0)
  y = f32[1000000]{0} parameter(1)
  sum = f32[1000000]{0} all-reduce(y), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=add
  product = f32[1000,1000]{1,0} dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT both = (f32[1000,1000]{1,0}, f32[1000000]{0}) tuple(product, sum)
}
";

#[test]
fn a_collective_without_a_done_waits() {
    let report = run(SYNCHRONOUS, Overlap::Written);
    assert!(close(report.seconds, 5e-3), "{}", report.seconds);
    assert!(close(report.shares[&Share::Links], 3e-3));
    assert!(close(report.shares[&Share::Products], 2e-3));
    assert_eq!(report.bound_by(), Share::Links);
    assert!(close(report.flops, 2e9));
    assert!(close(report.utilisation, 0.4));
    let total = report.collectives[&CollectiveKind::AllReduce];
    assert!(close(total.seconds, 3e-3) && close(total.count, 1.0) && close(total.bytes, 6e6));
    assert!(close(report.busy[0], 0.6));
}

#[test]
fn a_scheduler_hides_it() {
    let report = run(SYNCHRONOUS, Overlap::Scheduled);
    assert!(close(report.seconds, 3e-3), "{}", report.seconds);
    assert!(
        close(report.shares[&Share::Links], 1e-3),
        "what is left to wait for"
    );
    assert!(report.scheduled);
}

#[test]
fn a_pair_overlaps_with_what_is_between() {
    let between = "HloModule m, num_partitions=4

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY e {
  x = f32[1000,1000]{1,0} parameter(0)
  y = f32[1000000]{0} parameter(1)
  start = f32[1000000]{0} all-reduce-start(y), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=add
  product = f32[1000,1000]{1,0} dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  sum = f32[1000000]{0} all-reduce-done(start)
  more = f32[1000,1000]{1,0} dot(product, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT both = (f32[1000,1000]{1,0}, f32[1000000]{0}) tuple(more, sum)
}
";
    // 3 ms of links overlap with the first product of 2 ms, and then the second.
    let report = run(between, Overlap::Auto);
    assert!(!report.scheduled);
    assert!(close(report.seconds, 5e-3), "{}", report.seconds);
    let scheduled = run(between, Overlap::Scheduled);
    assert!(close(scheduled.seconds, 4e-3), "{}", scheduled.seconds);
}

#[test]
fn a_loop_is_its_iterations() {
    let text = "HloModule m, num_partitions=4

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

body {
  s = (s32[], f32[1000000]{0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  y = f32[1000000]{0} get-tuple-element(s), index=1
  sum = f32[1000000]{0} all-reduce(y), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=add
  ROOT out = (s32[], f32[1000000]{0}) tuple(next, sum)
}

condition {
  s = (s32[], f32[1000000]{0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  ten = s32[] constant(10)
  ROOT go = pred[] compare(i, ten), direction=LT
}

ENTRY e {
  y = f32[1000000]{0} parameter(0)
  zero = s32[] constant(0)
  init = (s32[], f32[1000000]{0}) tuple(zero, y)
  loop = (s32[], f32[1000000]{0}) while(init), condition=condition, body=body
  ROOT result = f32[1000000]{0} get-tuple-element(loop), index=1
}
";
    for overlap in [Overlap::Written, Overlap::Scheduled] {
        let report = run(text, overlap);
        // The kernels for the counter transfer a few bytes.
        assert!((report.seconds - 30e-3).abs() < 1e-6, "{}", report.seconds);
        assert!(close(
            report.collectives[&CollectiveKind::AllReduce].count,
            10.0
        ));
        assert!(report.assumed_loops.is_empty());
        let repeated = report
            .timeline
            .iter()
            .find(|event| event.what == "all-reduce");
        assert!(close(repeated.expect("an event").times, 10.0));
    }
}

#[test]
fn a_product_reads_what_arrives_in_pieces() {
    // 3 of 4 MB are gathered at 2 GB/s, 1.5 ms; the product takes 2 ms.
    let text = "HloModule m, num_partitions=4

ENTRY e {
  x = f32[1000,1000]{1,0} parameter(0)
  y = f32[250,1000]{1,0} parameter(1)
  all = f32[1000,1000]{1,0} all-gather(y), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, dimensions={0}
  ROOT product = f32[1000,1000]{1,0} dot(x, all), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
";
    let seconds = |part: &str| {
        let chip = CHIP.replace(
            "collective_overlap = 0",
            &format!("collective_overlap = {part}"),
        );
        let slice = slice_of(&chip, "4");
        let report = simulate(&module(text), &slice, &Options::default()).expect("it runs");
        let shares: f64 = report.shares.values().sum();
        assert!(close(shares, report.seconds), "the causes add up");
        report.seconds
    };
    assert!(close(seconds("0"), 3.5e-3));
    assert!(close(seconds("0.5"), 2.75e-3));
    assert!(close(seconds("1"), 2e-3));
}

#[test]
fn memory_is_what_lives_at_once() {
    // Arrays of 4 MB: x and y are kept; a and b are alive together, then b and c, where c may reuse
    // the memory of a.
    let text = "HloModule m, num_partitions=4

ENTRY e {
  x = f32[1000,1000]{1,0} parameter(0)
  y = f32[1000,1000]{1,0} parameter(1)
  a = f32[1000,1000]{1,0} dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[1000,1000]{1,0} dot(a, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT c = f32[1000,1000]{1,0} dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
";
    let report = run(text, Overlap::Auto);
    assert!(close(report.memory.parameters, 8e6));
    assert!(close(report.memory.results, 4e6));
    assert!(close(report.memory.peak, 16e6), "{}", report.memory.peak);
    assert!(report.memory.fits());
    let donated = text.replace(
        "HloModule m,",
        "HloModule m, input_output_alias={ {}: (0, {}, may-alias) },",
    );
    let report = run(&donated, Overlap::Auto);
    assert!(close(report.memory.peak, 12e6), "{}", report.memory.peak);
}

#[test]
fn arrays_of_any_size_are_never_made() {
    let text = SYNCHRONOUS.replace("1000000", "1000000000000000");
    let report = run(&text, Overlap::Auto);
    assert!(report.seconds > 1e6 && report.seconds.is_finite());
    assert!(!report.memory.fits());
}

#[test]
fn an_unknown_call_is_said_and_a_stated_one_is_counted() {
    let text = "HloModule m, num_partitions=4

ENTRY e {
  x = bf16[1000,1000]{1,0} parameter(0)
  a = bf16[1000,1000]{1,0} custom-call(x), custom_call_target=\"unheard_of\"
  ROOT b = bf16[1000,1000]{1,0} custom-call(a), custom_call_target=\"tpu_custom_call\", backend_config=\"{\\\"custom_call_config\\\": {\\\"cost_estimate\\\": {\\\"flops\\\": 3000000000, \\\"transcendentals\\\": 0, \\\"bytes_accessed\\\": 4000000}}}\"
}
";
    let report = run(text, Overlap::Auto);
    assert_eq!(report.unknown_calls.get("unheard_of"), Some(&1));
    assert_eq!(report.unknown_calls.len(), 1);
    assert!(close(report.flops, 3e9));
    // The first takes 4 MB at 1 TB/s, the second 3 ms.
    assert!(close(report.seconds, 3e-3 + 4e-6), "{}", report.seconds);
}

#[test]
fn nothing_is_slower_on_a_faster_chip() {
    let text = include_str!("../data/two_layers.hlo");
    let module = module(text);
    let chip = |ici: f64, latency: f64, hbm: f64, peak: f64, overlap: f64| {
        CHIP.replace("ici_bandwidth = 1 ", &format!("ici_bandwidth = {ici} "))
            .replace(
                "ici_hop_latency = 0 ",
                &format!("ici_hop_latency = {latency} "),
            )
            .replace("hbm_bandwidth = 1000 ", &format!("hbm_bandwidth = {hbm} "))
            .replace("peak_bf16 = 1 ", &format!("peak_bf16 = {peak} "))
            .replace(
                "collective_overlap = 0 ",
                &format!("collective_overlap = {overlap} "),
            )
    };
    let factors = [0.1, 0.5, 1.0, 1.3, 2.0, 7.0, 50.0];
    for overlap in [Overlap::Written, Overlap::Scheduled] {
        let seconds = |text: &str| {
            let options = Options {
                overlap,
                ..Options::default()
            };
            let report = simulate(&module, &slice_of(text, "4x4"), &options).expect("it runs");
            let shares: f64 = report.shares.values().sum();
            assert!((shares - report.seconds).abs() < 1e-9 * report.seconds.max(1e-9));
            report.seconds
        };
        for part in [0.0, 0.4, 1.0] {
            for other in factors {
                let mut before = [f64::INFINITY; 4];
                for own in factors {
                    let now = [
                        seconds(&chip(own, 1000.0, 1000.0 * other, 1.0, part)),
                        seconds(&chip(other, 1000.0 / own, 1000.0, 1.0, part)),
                        seconds(&chip(1.0, 1000.0, 1000.0 * own, other, part)),
                        seconds(&chip(other, 1000.0, 1000.0, own, part)),
                    ];
                    for (before, now) in before.iter_mut().zip(now) {
                        assert!(
                            now <= *before * (1.0 + 1e-12),
                            "{overlap:?} {part} {other} {own}"
                        );
                        *before = now;
                    }
                }
            }
        }
    }
}
