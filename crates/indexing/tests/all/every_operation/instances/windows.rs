//! Contractions, reductions and windows.

use super::super::case::{Instance, instance};
use super::{list, random_sizes, shape};
use crate::common::Random;

/// A window along one dimension of `size`: its text parts, and the result's size.
pub(super) struct Window {
    pub(super) size: i64,
    pub(super) stride: i64,
    pub(super) low: i64,
    pub(super) high: i64,
    pub(super) base: i64,
    pub(super) dilation: i64,
    pub(super) reversal: i64,
}

impl Window {
    pub(super) fn random(random: &mut Random, dilated: bool) -> Self {
        let dilate = |random: &mut Random| if dilated { random.range(1, 2) } else { 1 };
        Self {
            size: random.range(1, 3),
            stride: random.range(1, 2),
            low: random.range(0, 1),
            high: random.range(0, 2),
            base: dilate(random),
            dilation: dilate(random),
            reversal: 0,
        }
    }

    pub(super) fn result(&self, size: i64) -> i64 {
        let whole = (size - 1) * self.base + 1 + self.low + self.high;
        let reach = (self.size - 1) * self.dilation + 1;
        if whole < reach {
            0
        } else {
            (whole - reach) / self.stride + 1
        }
    }
}

fn window_text(windows: &[Window], reversal: bool) -> String {
    let join = |f: &dyn Fn(&Window) -> String| -> String {
        windows.iter().map(f).collect::<Vec<_>>().join("x")
    };
    let mut text = format!(
        "window={{size={} stride={} pad={} lhs_dilate={} rhs_dilate={}",
        join(&|w| w.size.to_string()),
        join(&|w| w.stride.to_string()),
        join(&|w| format!("{}_{}", w.low, w.high)),
        join(&|w| w.base.to_string()),
        join(&|w| w.dilation.to_string()),
    );
    if reversal {
        text += &format!(" rhs_reversal={}", join(&|w| w.reversal.to_string()));
    }
    text + "}"
}

pub(crate) fn contraction(random: &mut Random, kind: i64) -> Instance {
    match kind {
        0 => {
            let [b, m, k, n] = [0; 4].map(|_| random.range(1, 3));
            instance(
                &[&shape("f32", &[b, m, k]), &shape("f32", &[k, b, n])],
                &shape("f32", &[b, m, n]),
                "dot , lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={2}, rhs_contracting_dims={0}",
            )
        }
        1 => {
            let dims = random_sizes(random, 3, 3);
            let reduced: Vec<i64> = (0..3).filter(|_| random.range(0, 1) == 1).collect();
            let kept: Vec<i64> = (0..3)
                .filter(|d| !reduced.contains(d))
                .map(|d| dims[d as usize])
                .collect();
            let text = format!("reduce , dimensions={{{}}}, to_apply=add", list(&reduced));
            instance(
                &[&shape("f32", &dims), "f32[]"],
                &shape("f32", &kept),
                &text,
            )
        }
        2 => {
            let dims = random_sizes(random, 2, 4);
            let windows = [Window::random(random, true), Window::random(random, true)];
            let to: Vec<i64> = windows
                .iter()
                .zip(&dims)
                .map(|(w, d)| w.result(*d))
                .collect();
            let text = format!(
                "reduce-window , {}, to_apply=add",
                window_text(&windows, false)
            );
            instance(&[&shape("f32", &dims), "f32[]"], &shape("f32", &to), &text)
        }
        _ => convolution(random),
    }
}

fn convolution(random: &mut Random) -> Instance {
    let mut window = Window::random(random, true);
    window.reversal = random.range(0, 1);
    let (features, batches) = match random.range(0, 2) {
        0 => (2, 1),
        1 => (1, 2),
        _ => (1, 1),
    };
    let space = random.range(2, 4);
    let per_group = random.range(1, 2);
    let (batch, channels) = (batches * random.range(1, 2), features * per_group);
    let outputs = features * batches * random.range(1, 2);
    let input = shape("f32", &[batch, space, channels]);
    let kernel = shape("f32", &[window.size, per_group, outputs]);
    let result = shape("f32", &[batch / batches, window.result(space), outputs]);
    let text = format!(
        "convolution , {}, dim_labels=b0f_0io->b0f, feature_group_count={features}, batch_group_count={batches}",
        window_text(&[window], true)
    );
    instance(&[&input, &kernel], &result, &text)
}
