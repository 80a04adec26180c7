//! Kernels are read, and what is printed of them reads back.

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
