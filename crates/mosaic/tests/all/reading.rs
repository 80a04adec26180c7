//! Tests that kernels are read, and that their printed text reads back.

use super::common::{files, outside};

#[test]
fn kernels_of_others_are_read() {
    let Some(folder) = outside() else { return };
    let paths = files(&folder, "body.mlirbc");
    assert!(!paths.is_empty());
    for path in paths {
        let bytes = std::fs::read(&path).unwrap();
        let read = tegula_mosaic::read(bytes);
        let read = read.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let kernels = read.unwrap_or_else(|| panic!("{} has no kernel", path.display()));
        let printed = kernels[0].print();
        let again = tegula_mosaic::read(printed.clone().into_bytes());
        let again = again.unwrap_or_else(|error| panic!("{}: {error}\n{printed}", path.display()));
        assert_eq!(again.unwrap()[0].print(), printed, "{}", path.display());
        // The same kernel as MLIR prints it.
        let text = std::fs::read(path.with_file_name("module.mlir")).unwrap();
        let pretty = tegula_mosaic::read(text);
        let pretty = pretty.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let (pretty, kernel) = (&pretty.unwrap()[0].module, &kernels[0].module);
        assert_eq!(
            pretty.values.len(),
            kernel.values.len(),
            "{}",
            path.display()
        );
        assert_eq!(pretty.kernel.grid, kernel.kernel.grid);
        assert_eq!(pretty.kernel.windows, kernel.kernel.windows);
    }
}

/// Groups of operands that are too large, or fewer than a copy has, are errors or missing groups.
#[test]
fn groups_of_operands_may_be_wrong() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = path.join("../sim-tpu/tests/pallas/slots.mlir");
    let text = std::fs::read_to_string(path).unwrap();
    let own = "operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>";
    assert!(text.contains(own));
    for (sizes, reads) in [
        ("1, 1, 1", true),
        ("9223372036854775807, 1, 1, 0, 0", false),
        ("-1, 1, 1, 1, 1", false),
        ("1, 1", false),
        ("1, 1, 0, 1", false),
    ] {
        let sizes = format!("operandSegmentSizes = array<i32: {sizes}>");
        let damaged = text.replacen(own, &sizes, 1);
        let read = tegula_mosaic::read(damaged.into_bytes());
        assert_eq!(read.is_ok(), reads, "{sizes}: {:?}", read.err());
    }
}
