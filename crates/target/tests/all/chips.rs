//! The built-in chips, and texts of chips.

use tegula_target::{Chip, Param};

#[test]
fn every_chip_reads_and_prints_back() {
    let names: Vec<String> = Chip::built_in().into_iter().map(|chip| chip.name).collect();
    assert_eq!(names, ["v2", "v3", "v4i", "v4", "v5e", "v5p", "v6e", "7x"]);
    for chip in Chip::built_in() {
        assert_eq!(Chip::parse(&chip.to_string()).as_ref(), Ok(&chip));
        for param in Param::ALL {
            let stated = chip.quantity(*param);
            assert!(
                stated.is_some(),
                "{}: {} is not stated",
                chip.name,
                param.name()
            );
        }
    }
}

#[test]
fn chips_have_names() {
    assert_eq!(Chip::by_name("tpu7x"), Chip::by_name("7x"));
    assert_eq!(
        Chip::by_name("v9").unwrap_err().to_string(),
        "there is no chip `v9`; there are v2, v3, v4i, v4, v5e, v5p, v6e, 7x, tpu7x"
    );
}

#[test]
fn numbers_have_units_and_may_be_missing() {
    let v5e = Chip::by_name("v5e").unwrap();
    assert_eq!(v5e.value(Param::VmemBytes), Some(128.0 * 1024.0 * 1024.0));
    assert_eq!(v5e.value(Param::PeakBf16), Some(197e12));
    let suspect = v5e.quantity(Param::HbmVmemBandwidth).unwrap();
    assert_eq!(suspect.to_string(), "~1459 GB/s");
    let v2 = Chip::by_name("v2").unwrap();
    assert_eq!(v2.value(Param::HbmToVmemLatency), None);
    // The bandwidth that the compiler assumes is below the vendor's.
    for chip in Chip::built_in() {
        let vendor = chip.value(Param::HbmBandwidth).unwrap();
        assert!(
            chip.value(Param::CompilerHbmBandwidth)
                .is_none_or(|b| b < vendor)
        );
    }
}

#[test]
fn memory_spaces() {
    let v4 = Chip::by_name("v4").unwrap();
    let names: Vec<_> = v4.memory_spaces().iter().map(|space| space.name).collect();
    assert_eq!(names, ["HBM", "VMEM", "CMEM", "SMEM"]);
    let v5e = Chip::by_name("v5e").unwrap();
    let spaces = v5e.memory_spaces();
    let numbers: Vec<_> = spaces
        .iter()
        .map(|space| (space.name, space.layout_number))
        .collect();
    assert_eq!(
        numbers,
        [("HBM", Some(0)), ("VMEM", Some(1)), ("SMEM", None)]
    );
}

#[test]
fn wrong_texts_name_their_line() {
    let fails = |text: &str, expected: &str| {
        let error = Chip::parse(text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    };
    fails("", "line 1: the chip has no `name = ...`");
    fails("name = a\nname = b", "line 2: `name` is given twice");
    fails("name = a b", "line 1: `a b` is not a name");
    fails(
        "\nvmem",
        "line 2: expected `key = value unit # source`, found `vmem`",
    );
    fails(
        "vmem = 1 B # me",
        "line 1: there is no parameter `vmem`; there are hbm_vmem_bandwidth,",
    );
    fails(
        "flux = 1 B # me",
        "line 1: there is no parameter `flux`; there are cores_per_chip,",
    );
    fails(
        "vmem_bytes = 1 # me",
        "line 1: `vmem_bytes` takes a number and a unit, not `1`",
    );
    fails("vmem_bytes = 1 lb # me", "line 1: `lb` is not a unit");
    fails(
        "vmem_bytes = 1 ns # me",
        "line 1: `ns` measures Time, but `vmem_bytes` is Bytes",
    );
    fails("vmem_bytes = 1 MiB", "line 1: `vmem_bytes` has no source");
    fails(
        "vmem_bytes = -1 MiB # me",
        "line 1: expected a non-negative number, found `-1`",
    );
    fails(
        "vmem_bytes = nan MiB # me",
        "line 1: expected a non-negative number, found `nan`",
    );
    fails(
        "cores_per_chip = 0.5 count # me",
        "line 1: expected an integer, found `0.5`",
    );
    fails("tile_rule = odd", "line 1: unknown tile rule `odd`");
    let twice = "name = a\nclock = 1 GHz # me\n# again\nclock = 1 GHz # me";
    fails(twice, "line 4: `clock` is given twice");
}

#[test]
fn wrong_texts_show_the_place() {
    let shown = |text: &'static str| {
        let span = Chip::parse(text).unwrap_err().span;
        &text[span]
    };
    assert_eq!(shown("name = a\nvmem_bytes = 1 lb # me"), "lb");
    assert_eq!(shown("name = a\n  clock = -1 GHz # me\n"), "-1");
    assert_eq!(shown("name = a\n clok = 1 GHz # me"), "clok");
    assert_eq!(shown("name = a\nclock = 1 GHz"), "1 GHz");
    assert_eq!(shown("name =\n"), "name");
    assert_eq!(shown("clock = 1 GHz # me\n\n"), "clock = 1 GHz # me");
    assert_eq!(shown(""), "");
}
