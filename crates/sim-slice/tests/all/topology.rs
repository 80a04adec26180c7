//! Valid topologies, and those that a program can have.

use tegula_sim_slice::{Error, Options, Slice, Torus, simulate};
use tegula_target::Chip;

fn chip(name: &str) -> Chip {
    Chip::by_name(name).expect("a chip of that name")
}

#[test]
fn what_is_no_topology_says_what_to_do() {
    let v5e = chip("v5e");
    for (text, says) in [
        ("0x4", "an axis of 0 chips"),
        ("16x", "an axis without a number"),
        ("", "an axis without a number"),
        ("x", "an axis without a number"),
        ("axb", "`a`, which is not a number"),
        ("-4x4", "`-4`, which is not a number"),
        ("4.5", "`4.5`, which is not a number"),
        ("99999999999x99999999999", "more than 65536 chips"),
        ("99999999999999999999999999", "not a number of chips"),
        ("4x4x4", "a v5e has links along 2"),
    ] {
        let error = Slice::new(&v5e, text).map(|_| ()).expect_err(text);
        let message = error.to_string();
        assert!(message.contains(says), "{text}: {message}");
        let helps =
            message.contains("for example `16x16`") || message.contains("expected 2 numbers");
        assert!(helps, "{text}: {message}");
    }
}

#[test]
fn axes_are_rings_where_the_pod_closes_them() {
    let rings = |chip_name: &str, text: &str| -> Vec<bool> {
        let slice = Slice::new(&chip(chip_name), text).expect("a topology");
        slice
            .links
            .torus
            .axes
            .iter()
            .map(|axis| axis.wraps)
            .collect()
    };
    assert_eq!(rings("v5e", "16x16"), [true, true]);
    assert_eq!(rings("v5e", "8x16"), [false, true]);
    assert_eq!(rings("v5e", "4x4"), [false, false]);
    assert_eq!(rings("v5p", "2x2x4"), [false, false, true]);
    assert_eq!(rings("v5p", "4x4x8"), [true, true, true]);
}

#[test]
fn every_chip_with_known_links_has_slices() {
    for chip in Chip::built_in() {
        let known = ["v3", "v4", "v5e", "v5p", "v6e"].contains(&&*chip.name);
        match Slice::new(&chip, "4x4") {
            Ok(slice) => {
                assert!(known, "{}", chip.name);
                assert_eq!(
                    slice.devices(),
                    16 * slice.devices_per_chip,
                    "{}",
                    chip.name
                );
            }
            Err(error) => {
                assert!(!known, "{}: {error}", chip.name);
                assert!(error.to_string().contains("--set ici_"), "{error}");
            }
        }
    }
    // A v3 chip has two devices.
    let slice = Slice::new(&chip("v3"), "4x4").expect("known");
    assert_eq!(slice.devices_per_chip, 2);
}

#[test]
fn a_program_for_another_number_of_devices_is_an_error() {
    let text = "HloModule m, num_partitions=8\n\nENTRY e {\n  ROOT x = f32[4]{0} parameter(0)\n}\n";
    let module = tegula_ir::parse_module(text).expect("a module");
    let slice = Slice::new(&chip("v5e"), "4x4").expect("a slice");
    let error = simulate(&module, &slice, &Options::default()).expect_err("16 are not 8");
    assert!(
        matches!(
            error,
            Error::Devices {
                stated: 8,
                devices: 16,
                ..
            }
        ),
        "{error}"
    );
    assert!(
        error.to_string().contains("choose a topology of 8 devices"),
        "{error}"
    );
}

#[test]
fn groups_beyond_the_slice_are_an_error_that_names_the_instruction() {
    let text = "HloModule m

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY e {
  x = f32[4]{0} parameter(0)
  ROOT sum = f32[4]{0} all-reduce(x), channel_id=1, replica_groups=[2,8]<=[16], use_global_device_ids=true, to_apply=add
}
";
    let module = tegula_ir::parse_module(text).expect("a module");
    let slice = Slice::new(&chip("v5e"), "2x4").expect("a slice");
    let error = simulate(&module, &slice, &Options::default()).expect_err("8 are not 16");
    let message = error.to_string();
    assert!(
        message.contains("`sum`") && message.contains("2x4 has 8 devices"),
        "{message}"
    );
}

#[test]
fn distances_are_the_shorter_way() {
    let torus = Torus::parse("8x4", 8).expect("a topology");
    assert_eq!(torus.distance(0, 0, 3), 3);
    assert_eq!(torus.distance(0, 0, 5), -3);
    assert_eq!(torus.distance(0, 7, 0), 1);
    assert_eq!(torus.distance(0, 0, 4), 4);
    assert_eq!(torus.distance(1, 0, 3), 3, "a line has one way");
    assert_eq!(torus.coordinates(9), [2, 1]);
}
