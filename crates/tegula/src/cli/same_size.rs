//! `tegula shape MODEL --why A B`: why two sizes are equal.
//!
//! Both sizes are taken as the text states them, before anything is solved. What the
//! program's operations relate is put in, one relation at a time, until only sizes
//! are left that nothing determines; the simplifier decides the rest.

use super::inputs::{DimArgs, read_text};
use super::report::Failure;
use super::{Common, FINDING, SUCCESS};
use anyhow::{Context, anyhow};
use serde_json::json;
use std::path::Path;
use tegula_expr::{Term, Var, parse};
use tegula_indexing::equality::{Equality, assumptions_of, missing, same_dim};
use tegula_ir::{Derivation, Module, Shape, derive_sizes, spell_size};

/// Prints why two sizes of a program are equal, or what is missing for that.
pub(crate) fn why(
    path: &Path,
    names: [&String; 2],
    dims: &DimArgs,
    common: &Common,
) -> Result<u8, Failure> {
    let text = read_text(path)?;
    let failure = |error: tegula::Error| Failure::program(path, &text, error);
    let mut module = tegula::read_stated(&text).map_err(failure)?;
    let fixed: Vec<(&str, i64)> = dims.dims.iter().map(|(n, s)| (n.as_str(), *s)).collect();
    let derivations = derive_sizes(&mut module, &fixed).map_err(|e| failure(e.into()))?;
    let mut explanation = Explanation {
        module: &module,
        derivations: &derivations,
        relations: Vec::new(),
    };
    let [a, b] = names.map(|name| explanation.size(name));
    let (a, b) = (a?, b?);
    let (simple_a, simple_b) = (explanation.derive(&a), explanation.derive(&b));
    let known = assumptions_of(&module);
    let answer = same_dim(&simple_a, &simple_b, &known).map_err(anyhow::Error::new)?;
    let spell = |term: &Term| spell_size(term, &module.symbols);
    let name = |Var(number): Var| match module.symbols.get(number as usize) {
        Some(symbol) => symbol.name.to_string(),
        None => format!("symbol{number}"),
    };
    let lacking = match &answer {
        Equality::Unknown => missing(&simple_a, &simple_b, &known),
        Equality::Yes(_) | Equality::No(_) => Vec::new(),
    };
    let lacking: Vec<String> = (lacking.iter())
        .map(|assumption| assumption.display(&name).to_string())
        .collect();
    let (verdict, proofs) = match &answer {
        Equality::Yes(proofs) => (Some(true), proofs.as_slice()),
        Equality::No(proofs) => (Some(false), proofs.as_slice()),
        Equality::Unknown => (None, &[][..]),
    };
    let shown = proofs.iter().filter(|proof| !proof.is_immediate());
    let proofs: Vec<String> = shown
        .map(|proof| proof.display(&name).to_string())
        .collect();
    let sizes = [(names[0], &a, &simple_a), (names[1], &b, &simple_b)];
    if common.json {
        let size = |(name, stated, size): (&String, &Term, &Term)| json!({"name": name, "stated": spell(stated), "size": spell(size)});
        let object = json!({
            "equal": verdict,
            "sizes": sizes.map(size),
            "relations": explanation.relations,
            "proof": proofs,
            "missing": lacking,
        });
        say!("{object}");
    } else {
        for (name, stated, _) in sizes {
            say!("{name}: {}", spell(stated));
        }
        for relation in &explanation.relations {
            say!("  {relation}");
        }
        for proof in &proofs {
            say!("{proof}");
        }
        let (left, right) = (spell(&simple_a), spell(&simple_b));
        match verdict {
            Some(true) if left == right => say!("equal: both are {left}"),
            Some(true) => say!("equal: {left} and {right}"),
            Some(false) => say!("never equal: {left} and {right}"),
            None => say!("not proved: it would take {}", lacking.join(" and ")),
        }
    }
    Ok(if answer.is_yes() { SUCCESS } else { FINDING })
}

struct Explanation<'a> {
    module: &'a Module,
    derivations: &'a [Derivation],
    /// What was put in, in words.
    relations: Vec<String>,
}

impl Explanation<'_> {
    /// The size of a dimension, or a formula over the symbols.
    fn size(&self, text: &str) -> anyhow::Result<Term> {
        if let Some((name, place)) = text.rsplit_once(':') {
            return self.dimension(name.trim(), place.trim());
        }
        let symbols = &self.module.symbols;
        let symbol = |name: &str| {
            let position = symbols.iter().position(|symbol| &*symbol.name == name)?;
            Some(Var(u32::try_from(position).ok()?))
        };
        parse(text, &symbol).with_context(|| {
            let known: Vec<&str> = symbols.iter().map(|symbol| &*symbol.name).collect();
            let known = match known.as_slice() {
                [] => "the program has no open sizes".to_owned(),
                _ => format!("its open sizes are {}", known.join(", ")),
            };
            format!(
                "`{text}` is neither a dimension such as `dot.3:0` nor a formula over the program's open sizes; {known}"
            )
        })
    }

    /// Dimension `K`, or `LEAF.K` of a tuple, of an instruction's result.
    fn dimension(&self, name: &str, place: &str) -> anyhow::Result<Term> {
        let module = self.module;
        let id = super::index::chosen(module, Some(name))?;
        let shape = id.first().map(|&id| &module[id].shape);
        let (leaf, dimension) = place.split_once('.').unwrap_or(("0", place));
        let wrong = || anyhow!("`{place}` is no dimension of `{name}`: expected a number");
        let leaf: usize = leaf.parse().map_err(|_| wrong())?;
        let dimension: usize = dimension.parse().map_err(|_| wrong())?;
        let mut leaves = Vec::new();
        if let Some(shape) = shape {
            shape.for_each_leaf(&mut |shape| leaves.push(shape));
        }
        let array = leaves.get(leaf).and_then(|shape| Shape::as_array(shape));
        let array = array.ok_or_else(|| anyhow!("`{name}` has no array {leaf}"))?;
        let dim = array.dims.get(dimension);
        let dim = dim.ok_or_else(|| {
            anyhow!(
                "`{name}` has {} dimensions and none of number {dimension}",
                array.rank()
            )
        })?;
        Ok(dim.term())
    }

    /// The size over symbols that nothing determines; notes each relation used.
    fn derive(&mut self, size: &Term) -> Term {
        let mut size = size.clone();
        for derivation in self.derivations {
            if !size.mentions(derivation.symbol) {
                continue;
            }
            let symbols = &self.module.symbols;
            let checked = match derivation.checked {
                true => "; a run checks it",
                false => "",
            };
            let relation = format!(
                "{} = {} ({}{checked})",
                spell_size(&Term::var(derivation.symbol), symbols),
                spell_size(&derivation.value, symbols),
                derivation.what.trim_end_matches(','),
            );
            if !self.relations.contains(&relation) {
                self.relations.push(relation);
            }
            size = size
                .substitute(&mut |v| (v == derivation.symbol).then(|| derivation.value.clone()));
        }
        size
    }
}
