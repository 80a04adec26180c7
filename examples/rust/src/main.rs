//! A small network with an open batch, as one object for every batch size.

use std::ffi::c_void;
use std::ptr;

/// Features, hidden units and classes, as the model has them.
const SIZES: [usize; 3] = [12, 20, 4];

// As `mlp.h`, beside the library, declares them.
unsafe extern "C" {
    fn mlp_arena_bytes(sizes: *const i64) -> i64;
    fn mlp_call(
        sizes: *const i64,
        parameters: *const *const c_void,
        results: *const *mut c_void,
        arena: *mut c_void,
    ) -> i32;
}

/// The probability of each class for each row of `x`; the status if it is not 0.
fn mlp(batch: usize, x: &[f32], [w1, b1, w2]: [&[f32]; 3]) -> Result<Vec<f32>, i32> {
    let [features, hidden, classes] = SIZES;
    assert_eq!(x.len(), batch * features);
    assert_eq!(w1.len(), features * hidden);
    assert_eq!((b1.len(), w2.len()), (hidden, hidden * classes));
    let sizes = [batch as i64];
    let mut out = vec![0.0; batch * classes];
    let parameters = [x, w1, b1, w2].map(|array| array.as_ptr().cast());
    let results = [out.as_mut_ptr().cast()];
    // SAFETY: the arrays have the sizes that the header states, which was just checked; the arena is
    // as large as the library asks for, and aligned to 64 bytes.
    let status = unsafe {
        let bytes = mlp_arena_bytes(sizes.as_ptr()) as usize;
        let mut arena = vec![0u8; bytes + 64];
        let start = arena.as_mut_ptr();
        let start = start.add(start.align_offset(64)).cast();
        mlp_call(sizes.as_ptr(), parameters.as_ptr(), results.as_ptr(), start)
    };
    if status == 0 { Ok(out) } else { Err(status) }
}

fn numbers(count: usize, step: usize) -> Vec<f32> {
    (0..count)
        .map(|i| (i * step % 17) as f32 / 8.0 - 1.0)
        .collect()
}

fn main() {
    let [features, hidden, classes] = SIZES;
    let (w1, b1) = (numbers(features * hidden, 5), numbers(hidden, 3));
    let w2 = numbers(hidden * classes, 7);
    let weights = [&w1[..], &b1, &w2];
    let x = numbers(5 * features, 11);
    let together = mlp(5, &x, weights).expect("a batch of five");
    for (row, own) in x.chunks_exact(features).zip(together.chunks_exact(classes)) {
        let alone = mlp(1, row, weights).expect("a batch of one");
        let differs = alone.iter().zip(own).any(|(a, b)| (a - b).abs() > 1e-5);
        assert!(!differs, "{alone:?} {own:?}");
        assert!((own.iter().sum::<f32>() - 1.0).abs() < 1e-5, "{own:?}");
    }
    println!("batch 5: the same as one by one, first {:.4}", together[0]);
    // A size that cannot be is a status, not a crash.
    let (none, sizes) = ([ptr::null(); 4], [-1]);
    // SAFETY: nothing is read but the size.
    let status = unsafe { mlp_call(sizes.as_ptr(), none.as_ptr(), ptr::null(), ptr::null_mut()) };
    println!("batch -1: status {status}");
    assert_ne!(status, 0);
}
