//! Sorts, transforms, linear algebra, normalisations and the rest.

use super::super::case::{Instance, instance};
use super::shape;
use super::windows::Window;
use crate::common::Random;

pub(crate) fn library(random: &mut Random, kind: i64) -> Instance {
    let [n, m] = [0; 2].map(|_| random.range(2, 3));
    match kind {
        0 => {
            let own = shape("f32", &[n, m]);
            let dim = random.range(0, 1);
            instance(
                &[&own],
                &own,
                &format!("sort , dimensions={{{dim}}}, to_apply=lt"),
            )
        }
        1 => {
            let own = shape("f32", &[n, m]);
            let both = format!("({own}, {own})");
            instance(&[&own, &own], &both, "sort , dimensions={1}, to_apply=lt2")
        }
        2 => {
            let both = format!("({}, {})", shape("f32", &[n, 2]), shape("s32", &[n, 2]));
            instance(&[&shape("f32", &[n, 4])], &both, "topk , k=2, largest=true")
        }
        3 => {
            let own = shape("c64", &[n, 4]);
            instance(&[&own], &own, "fft , fft_type=FFT, fft_length={4}")
        }
        4 => {
            let from = shape("f32", &[n, 4]);
            instance(
                &[&from],
                &shape("c64", &[n, 3]),
                "fft , fft_type=RFFT, fft_length={4}",
            )
        }
        5 => {
            let own = shape("f32", &[n, 3, 3]);
            instance(&[&own], &own, "cholesky , lower=true")
        }
        6 => {
            let (own, right) = (shape("f32", &[n, 3, 3]), shape("f32", &[n, 3, 2]));
            instance(
                &[&own, &right],
                &right,
                "triangular-solve , left_side=true, lower=true, unit_diagonal=false, transpose_a=NO_TRANSPOSE",
            )
        }
        7 => {
            let (own, each) = (shape("f32", &[n, 3, m]), shape("f32", &[m]));
            let all = format!("({own}, {each}, {each})");
            instance(
                &[&own, &each, &each],
                &all,
                "batch-norm-training , epsilon=0.5, feature_index=2",
            )
        }
        8 => {
            let (own, each) = (shape("f32", &[n, m]), shape("f32", &[n]));
            instance(
                &[&own, &each, &each, &each, &each],
                &own,
                "batch-norm-inference , epsilon=0.5, feature_index=0",
            )
        }
        9 => {
            let (own, each) = (shape("f32", &[n, m, 2]), shape("f32", &[m]));
            let all = format!("({own}, {each}, {each})");
            instance(
                &[&own, &each, &each, &each, &own],
                &all,
                "batch-norm-grad , epsilon=0.5, feature_index=1",
            )
        }
        10 => {
            let mut windows = [Window::random(random, false), Window::random(random, false)];
            let dims = [4, 3];
            windows
                .iter_mut()
                .for_each(|w| w.high = w.high.min(w.size - 1));
            windows
                .iter_mut()
                .for_each(|w| w.low = w.low.min(w.size - 1));
            let to: Vec<i64> = windows
                .iter()
                .zip(&dims)
                .map(|(w, d)| w.result(*d))
                .collect();
            let join = |f: &dyn Fn(&Window) -> String| -> String {
                windows.iter().map(f).collect::<Vec<_>>().join("x")
            };
            let text = format!(
                "select-and-scatter , window={{size={} stride={} pad={}}}, select=ge, scatter=add",
                join(&|w| w.size.to_string()),
                join(&|w| w.stride.to_string()),
                join(&|w| format!("{}_{}", w.low, w.high)),
            );
            let own = shape("f32", &dims);
            instance(&[&own, &shape("f32", &to), "f32[]"], &own, &text)
        }
        11 => {
            let own = shape("f32", &[n, m]);
            instance(&[&own, &own], &own, "map , dimensions={0,1}, to_apply=add")
        }
        _ => instance(
            &[&shape("f32", &[n, m])],
            "s32[]",
            "get-dimension-size , dimensions={1}",
        ),
    }
}
