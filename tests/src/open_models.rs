//! Programs of the corpus with an open batch size (and sequence length, if a single size determines
//! it). They are made from the static programs, and their inputs can have any size.

use crate::opened::opened;
use anyhow::{Context, Result};
use std::path::Path;
use tegula::Tensor;
use tegula_ir::{ArrayShape, Literal};

/// A program of the corpus, with the dimensions that become open.
#[derive(Clone, Copy, Debug)]
pub struct OpenModel {
    /// The program's name.
    pub name: &'static str,
    /// The dimensions that become open: each a list of inputs with their dimensions.
    pub open: &'static [&'static [(usize, usize)]],
    /// Values for the open sizes; first those of the static program.
    pub sizes: [&'static [i64]; 3],
}

/// The programs: a language model and an image model by batch, an encoder by batch and
/// sequence, a training step of a recurrent network by batch.
pub const OPEN_MODELS: [OpenModel; 4] = [
    OpenModel {
        name: "gpt2_small_fwd",
        open: &[&[(148, 0)]],
        sizes: [&[1], &[2], &[3]],
    },
    OpenModel {
        name: "bert12_fwd_f32",
        open: &[&[(144, 0), (145, 0)], &[(144, 1), (145, 1)]],
        sizes: [&[2, 128], &[1, 64], &[3, 40]],
    },
    OpenModel {
        name: "resnet50_fwd_f32",
        open: &[&[(267, 0)]],
        sizes: [&[1], &[2], &[3]],
    },
    OpenModel {
        name: "lstm_scan_train",
        open: &[&[(3, 1), (4, 1)]],
        sizes: [&[8], &[1], &[19]],
    },
];

impl OpenModel {
    /// The text with its open sizes.
    ///
    /// # Errors
    /// The program is not in the folder, or cannot be read.
    pub fn text(&self, corpus: &Path) -> Result<String> {
        let path = corpus.join(format!("{}.hlo", self.name));
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let places: Vec<(usize, usize)> = self.open.iter().copied().flatten().copied().collect();
        Ok(opened(&text, &places)?)
    }

    /// The open dimensions by name, with these values.
    pub fn dims(&self, sizes: &[i64]) -> Vec<(String, i64)> {
        let named = self.open.iter().zip(sizes).flat_map(|(places, &size)| {
            let name = move |&(input, dim): &(usize, usize)| (format!("p{input}_d{dim}"), size);
            places.iter().map(name)
        });
        named.collect()
    }

    /// The static program's inputs at these values of the open sizes: repeated along
    /// a dimension that is longer, cut off along one that is shorter.
    ///
    /// # Errors
    /// An input is too large.
    pub fn inputs(&self, inputs: &[Literal], sizes: &[i64]) -> Result<Vec<Tensor>> {
        let mut all = Vec::with_capacity(inputs.len());
        for (number, input) in inputs.iter().enumerate() {
            let shape = input.shape();
            let own = shape.static_dims().context("an input's sizes")?.to_vec();
            let mut wanted = own.clone();
            for (places, &size) in self.open.iter().zip(sizes) {
                for &(_, dim) in places.iter().filter(|(input, _)| *input == number) {
                    wanted[dim] = size;
                }
            }
            all.push(Tensor::from(match wanted == own {
                true => input.clone(),
                false => resized(input, &own, &wanted)?,
            }));
        }
        Ok(all)
    }
}

fn resized(input: &Literal, own: &[i64], wanted: &[i64]) -> Result<Literal> {
    let shape = ArrayShape::new(input.element_type(), wanted);
    let mut result = Literal::zeros(&shape)?;
    for place in 0..result.len() {
        let (mut rest, mut from, mut stride) = (place as i64, 0, 1);
        for (&to, &size) in wanted.iter().zip(own).rev() {
            from += rest % to % size * stride;
            rest /= to;
            stride *= size;
        }
        let scalar = input.scalar(usize::try_from(from)?).context("an element")?;
        result.set_scalar(place, scalar)?;
    }
    Ok(result)
}
