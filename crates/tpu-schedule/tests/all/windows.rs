//! Tests blocks of kernels: they fit, they consist of tiles, the windows contain every element that
//! a block of the result needs, and no other block that was tried costs less.

use tegula_layout::assign::{Assignment, Kernel, Machine, assign};
use tegula_target::Chip;
use tegula_tpu_schedule::{windows::Windows, windows::windows};

fn assigned(text: &str) -> (tegula_ir::Module, Assignment) {
    let module = tegula_ir::parse_module(text).unwrap();
    let machine = Machine::tpu(&Chip::by_name("v5e").unwrap()).unwrap();
    let assignment = assign(
        &module,
        &machine,
        &|_| false,
        &mut tegula_ir::PassManager::new(),
    )
    .unwrap();
    (module, assignment)
}

fn of_last(text: &str, limit: i64) -> Option<Windows> {
    let (module, assignment) = assigned(text);
    let kernel: &Kernel = assignment.regions.last()?.kernels.last()?;
    let chip = Chip::by_name("v5e").unwrap();
    windows(&module, &assignment, kernel, &chip, limit, &|_| true)
}

fn product(m: i64, k: i64, n: i64) -> String {
    format!(
        "HloModule p\n\nENTRY main {{\n  x = f32[{m},{k}] parameter(0)\n  y = f32[{k},{n}] parameter(1)\n  \
         ROOT z = f32[{m},{n}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n}}\n"
    )
}

#[test]
fn windows_of_a_product_follow_its_operands() {
    for (m, k, n, limit) in [
        (4096, 1024, 4096, 16 << 20),
        (1024, 1024, 1024, 16 << 20),
        (1000, 1000, 1000, 4 << 20),
        (8192, 8192, 8192, 16 << 20),
        (129, 257, 65, 16 << 20),
    ] {
        let found = of_last(&product(m, k, n), limit).unwrap();
        let chosen = &found.chosen;
        assert!(chosen.vmem_bytes <= limit, "{found:?}");
        let [bm, bn, bk] = chosen.block[..] else {
            panic!("{chosen:?}")
        };
        let extents = [m, n, k];
        for (block, extent) in chosen.block.iter().zip(extents) {
            assert!(*block == extent || block % 8 == 0, "{chosen:?}");
        }
        let dims: Vec<&[i64]> = found.windows.iter().map(|w| &w.dims[..]).collect();
        assert_eq!(dims, [&[bm, bk][..], &[bk, bn], &[bm, bn]]);
        let masked: Vec<usize> = (0..3)
            .filter(|&d| extents[d] % chosen.block[d] != 0)
            .collect();
        assert_eq!(found.masked, masked);
        for other in &found.alternatives {
            assert!(other.seconds >= chosen.seconds && other.vmem_bytes <= limit);
        }
        // The result is not written again while the sum continues.
        let result = found.windows.last().unwrap();
        assert!(!result.follows.contains(&2));
    }
}

#[test]
fn a_small_product_is_one_block_and_a_limit_of_nothing_fits_nothing() {
    let found = of_last(&product(128, 128, 128), 16 << 20).unwrap();
    assert_eq!(found.chosen.grid, [1, 1, 1]);
    assert_eq!(found.chosen.vmem_bytes, 2 * 3 * 128 * 128 * 4);
    assert_eq!(of_last(&product(128, 128, 128), 1000), None);
}

#[test]
fn windows_of_elementwise_reductions_and_transpositions() {
    let add = "HloModule a\n\nENTRY main {\n  x = f32[8192,8192] parameter(0)\n  y = f32[8192,8192] parameter(1)\n  ROOT z = f32[8192,8192] add(x, y)\n}\n";
    let found = of_last(add, 16 << 20).unwrap();
    let block = &found.chosen.block;
    assert!(found.windows.iter().all(|window| window.dims == *block));
    // Nothing is fetched twice.
    assert_eq!(found.chosen.hbm_bytes, 3.0 * 8192.0 * 8192.0 * 4.0);
    let row = "HloModule r\n\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n\nENTRY main {\n  x = f32[4096,2048] parameter(0)\n  zero = f32[] constant(0)\n  ROOT s = f32[4096] reduce(x, zero), dimensions={1}, to_apply=add\n}\n";
    let found = of_last(row, 4 << 20).unwrap();
    assert_eq!(
        found.windows[0].dims,
        [found.chosen.block[0], found.chosen.block[1]]
    );
    assert!(found.chosen.vmem_bytes <= 4 << 20);
    let turned = "HloModule t\n\nENTRY main {\n  x = f32[2048,1024] parameter(0)\n  t = f32[1024,2048] transpose(x), dimensions={1,0}\n  ROOT y = f32[1024,2048] negate(t)\n}\n";
    assert!(of_last(turned, 8 << 20).is_some());
}
