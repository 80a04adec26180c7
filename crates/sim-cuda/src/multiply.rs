//! Checks and computes matrix products, element by element.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::ops::Range;

use half::{bf16, f16};

use crate::driver::{Driver, Outcome};
use crate::matrix_product::*;
use crate::status::Status;

/// Numbers of `cublasStatus_t`.
pub(crate) const NOT_INITIALIZED: Status = Status(1);
pub(crate) const INVALID_VALUE: Status = Status(7);
pub(crate) const EXECUTION_FAILED: Status = Status(13);
pub(crate) const NOT_SUPPORTED: Status = Status(15);

/// Records the reason why a call is refused.
pub(crate) fn refuse<T>(driver: &Driver, status: Status, reason: &str) -> Result<T, Status> {
    driver.note(&format!("cublasLt: {reason}"));
    Err(status)
}

impl Layout {
    pub(crate) fn check(&self, driver: &Driver) -> Outcome {
        let reason = if bytes_of(self.kind).is_none() {
            "a matrix has an unknown element type"
        } else if self.rows == 0 || self.columns == 0 || self.batch < 1 {
            "a matrix has no elements"
        } else if u64::try_from(self.leading).map_or(true, |leading| leading < self.rows) {
            "the leading dimension is shorter than a column"
        } else {
            return Ok(());
        };
        refuse(driver, INVALID_VALUE, reason)
    }
}

impl Operation {
    /// Whether a product of these types with this type of sums is supported.
    fn has_product(&self, factors: u32, result: u32) -> bool {
        let types = (factors, result);
        match (self.compute, self.scale) {
            (COMPUTE_F32, F32) => matches!(
                types,
                (F32, F32) | (F16, F16 | F32) | (BF16, BF16 | F32) | (S8, F32)
            ),
            (COMPUTE_F64, F64) => types == (F64, F64),
            (COMPUTE_S32, S32) => types == (S8, S32) && self.epilogue == 1,
            _ => false,
        }
    }

    /// Checks that the matrices A, B, C and D form a product, and returns its depth.
    pub(crate) fn check(&self, driver: &Driver, layouts: &[Layout; 4]) -> Result<u64, Status> {
        let refuse = |status, reason| refuse(driver, status, reason);
        layouts.iter().try_for_each(|layout| layout.check(driver))?;
        let [a, b, c, d] = layouts;
        if !EPILOGUES.contains(&self.epilogue) {
            return refuse(NOT_SUPPORTED, "the stand-in does not support this epilogue");
        }
        if self.epilogue & BIAS != 0 && self.bias == 0 {
            return refuse(
                INVALID_VALUE,
                "the epilogue needs a bias, and none is given",
            );
        }
        if self.transposed.iter().any(|op| !(0..=1).contains(op)) {
            return refuse(NOT_SUPPORTED, "the transposition is unknown");
        }
        if a.kind != b.kind || c.kind != d.kind || !self.has_product(a.kind, d.kind) {
            return refuse(
                NOT_SUPPORTED,
                "this combination of matrix types is not supported",
            );
        }
        let op = |layout: &Layout, transposed: i32| match transposed {
            0 => (layout.rows, layout.columns),
            _ => (layout.columns, layout.rows),
        };
        let ((rows, depth), (inner, columns)) =
            (op(a, self.transposed[0]), op(b, self.transposed[1]));
        if inner != depth || (d.rows, d.columns) != (rows, columns) || c != d {
            return refuse(INVALID_VALUE, "the matrices do not fit together");
        }
        if layouts.iter().any(|layout| layout.batch != d.batch) {
            return refuse(
                INVALID_VALUE,
                "the matrices have different numbers of batches",
            );
        }
        let overlap = |layout: &&Layout| layout.batch > 1 && layout.stride == 0;
        if [d].iter().any(overlap) {
            return refuse(INVALID_VALUE, "batches of the result overlap in memory");
        }
        if a.kind == S8 {
            let sizes = [
                rows,
                depth,
                a.leading.unsigned_abs(),
                b.leading.unsigned_abs(),
            ];
            let is_even = sizes.iter().all(|size| size % 4 == 0);
            if self.transposed != [1, 0] || !is_even {
                return refuse(
                    NOT_SUPPORTED,
                    "8-bit types need A transposed, and dimensions that are multiples of four",
                );
            }
        }
        Ok(depth)
    }

    pub(crate) fn problem(&self, layouts: &[Layout; 4]) -> u64 {
        let mut hasher = DefaultHasher::new();
        let same = Self {
            bias: 0,
            ..self.clone()
        };
        (same, layouts).hash(&mut hasher);
        hasher.finish()
    }
}

/// An element, in the type of sums.
pub(crate) fn load(kind: u32, bytes: &[u8]) -> f64 {
    fn word<const N: usize>(bytes: &[u8]) -> [u8; N] {
        std::array::from_fn(|i| bytes.get(i).copied().unwrap_or(0))
    }
    match kind {
        F64 => f64::from_le_bytes(word(bytes)),
        F32 => f32::from_le_bytes(word(bytes)).into(),
        F16 => f16::from_le_bytes(word(bytes)).into(),
        BF16 => bf16::from_le_bytes(word(bytes)).into(),
        S32 => i32::from_le_bytes(word(bytes)).into(),
        _ => i8::from_le_bytes(word(bytes)).into(),
    }
}

fn store(kind: u32, value: f64, to: &mut Vec<u8>) {
    match kind {
        F64 => to.extend(value.to_le_bytes()),
        F32 => to.extend((value as f32).to_le_bytes()),
        F16 => to.extend(f16::from_f32(value as f32).to_le_bytes()),
        BF16 => to.extend(bf16::from_f32(value as f32).to_le_bytes()),
        // Sums of bytes are exact; the device keeps the lowest 32 bits.
        _ => to.extend((value as i64 as i32).to_le_bytes()),
    }
}

impl Product {
    /// Checks the addresses of all matrices.
    pub(crate) fn check(&self, driver: &Driver) -> Outcome {
        let spans: Vec<Range<u64>> = (0..4)
            .map(|i| self.layouts[i].span(self.addresses[i]))
            .collect();
        let bias = match self.operation.epilogue & BIAS != 0 {
            true => {
                let bytes = self.layouts[3].rows * bytes_of(self.layouts[3].kind).unwrap_or(1);
                self.operation.bias..self.operation.bias + bytes
            }
            false => 0..0,
        };
        for span in spans.iter().chain([&bias, &self.workspace]) {
            if span.is_empty() {
                continue;
            }
            let inside = driver.memory.allocation_of(span.start);
            if inside.is_none_or(|(start, bytes)| span.end > start + bytes) {
                let reason = format!(
                    "an access of {} bytes is outside of all allocations",
                    span.end - span.start
                );
                return refuse(driver, EXECUTION_FAILED, &reason);
            }
        }
        let meet = |a: &Range<u64>, b: &Range<u64>| a.start < b.end && b.start < a.end;
        let [a, b, c, d] = &spans[..] else {
            return Err(INVALID_VALUE);
        };
        let reads_c = self.scales[1] != 0.0;
        let clash = meet(d, a)
            || meet(d, b)
            || meet(d, &bias)
            || (reads_c && meet(d, c) && c != d)
            || [a, b, c, d, &bias]
                .iter()
                .any(|span| meet(span, &self.workspace));
        if clash {
            return refuse(
                driver,
                INVALID_VALUE,
                "the result or the workspace overlaps an operand",
            );
        }
        Ok(())
    }

    /// Computes the product.
    pub(crate) fn run(&self, driver: &mut Driver) -> Outcome {
        let read = |driver: &Driver, span: Range<u64>| -> Result<Vec<u8>, Status> {
            let mut bytes = vec![0; usize::try_from(span.end - span.start).unwrap_or(0)];
            let read = driver.memory.read(span.start, &mut bytes);
            read.map(|()| bytes).map_err(|_| EXECUTION_FAILED)
        };
        let [a, b, c, d] = self.layouts;
        let matrices = [
            read(driver, a.span(self.addresses[0]))?,
            read(driver, b.span(self.addresses[1]))?,
            read(driver, c.span(self.addresses[2]))?,
        ];
        let size = |kind| bytes_of(kind).unwrap_or(1);
        let element = |matrix: usize, batch, [row, column]: [u64; 2]| {
            let layout = self.layouts[matrix];
            let at = (layout.at(batch, row, column) * size(layout.kind)) as usize;
            load(layout.kind, matrices[matrix].get(at..).unwrap_or(&[]))
        };
        let op = |matrix: usize, [row, column]: [u64; 2]| match self.operation.transposed[matrix] {
            0 => [row, column],
            _ => [column, row],
        };
        let bias = match self.operation.epilogue & BIAS != 0 {
            true => {
                let start = self.operation.bias;
                read(driver, start..start + d.rows * size(d.kind))?
            }
            false => Vec::new(),
        };
        let depth = match self.operation.transposed[0] {
            0 => a.columns,
            _ => a.rows,
        };
        let wide = self.operation.compute != COMPUTE_F32;
        let rounded = |value: f64| if wide { value } else { f64::from(value as f32) };
        let (batches, mut column_bytes) = (u64::from(d.batch.unsigned_abs()), Vec::new());
        for (batch, column) in (0..batches).flat_map(|b| (0..d.columns).map(move |c| (b, c))) {
            column_bytes.clear();
            for row in 0..d.rows {
                let mut sum = 0.0;
                for k in 0..depth {
                    let x = element(0, batch, op(0, [row, k]));
                    let y = element(1, batch, op(1, [k, column]));
                    sum = rounded(x.mul_add(y, sum));
                }
                sum = rounded(self.scales[0] * sum);
                if self.scales[1] != 0.0 {
                    sum = rounded(sum + self.scales[1] * element(2, batch, [row, column]));
                }
                let bias = bias.get((row * size(d.kind)) as usize..);
                if let Some(bias) = bias.filter(|_| self.operation.epilogue & BIAS != 0) {
                    sum = rounded(sum + load(d.kind, bias));
                }
                if self.operation.epilogue & RELU != 0 {
                    sum = sum.max(0.0);
                }
                if self.operation.epilogue & GELU != 0 {
                    let root = (2.0 / std::f64::consts::PI).sqrt();
                    let inner = root * (sum + 0.044_715 * sum * sum * sum);
                    sum = rounded(0.5 * sum * (1.0 + inner.tanh()));
                }
                store(d.kind, sum, &mut column_bytes);
            }
            let at = self.addresses[3] + d.at(batch, 0, column) * size(d.kind);
            let written = driver.memory.write(at, &column_bytes);
            written.map_err(|_| EXECUTION_FAILED)?;
        }
        let (start, bytes) = (
            self.workspace.start,
            self.workspace.end - self.workspace.start,
        );
        if bytes > 0 {
            let written = driver.memory.fill(start, bytes, 0xff);
            written.map_err(|_| EXECUTION_FAILED)?;
        }
        driver.now += batches * d.rows * d.columns * depth / 1024;
        driver.note_product(&format!(
            "{batches} of {} x {} x {depth}, type {}, transposed {:?}, epilogue {}, beta {}",
            d.rows,
            d.columns,
            a.kind,
            self.operation.transposed,
            self.operation.epilogue,
            self.scales[1]
        ));
        Ok(())
    }
}
