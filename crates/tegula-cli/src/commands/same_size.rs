//! `tegula sizes MODEL --why A B`: explains why two sizes are equal.
//!
//! Both sizes start as the program's text states them. The relations that the program's operations
//! imply are then substituted one by one, until only sizes are left that nothing determines. The
//! simplifier proves the equality of the two results.

use crate::documents::{self, SameSize, Size};
use crate::exit_code::{FINDING, SUCCESS};
use crate::inputs::{DimArgs, read_file, read_stated, text_of};
use crate::options::Common;
use crate::report::Failure;
use anyhow::{Context, anyhow};
use std::path::Path;
use tegula_expr::{Term, Var, parse};
use tegula_indexing::equality::{Equality, assumptions_of, missing, same_dim};
use tegula_ir::{Derivation, Module, Shape, derive_sizes, display_term};

/// Prints why two sizes of a program are equal, or which assumptions are missing.
pub(crate) fn why(
    path: &Path,
    names: [&String; 2],
    dims: &DimArgs,
    inputs: Option<&Path>,
    common: &Common,
) -> Result<u8, Failure> {
    let bytes = read_file(path)?;
    let failure = |error: tegula::Error| Failure::program(path, text_of(&bytes), error);
    let mut module = read_stated(path, &bytes, inputs)?;
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
    let spell = |term: &Term| display_term(term, &module.symbols);
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
        documents::print(&SameSize {
            equal: verdict,
            sizes: sizes.map(|(name, stated, size)| Size {
                name: name.clone(),
                stated: spell(stated),
                size: spell(size),
            }),
            relations: explanation.relations,
            proof: proofs,
            missing: lacking,
        });
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

/// The prefix of the names that replace dimensions in a formula; a number follows.
const DIMENSION: &str = "dimension_";

/// Replaces each `instruction:dimension` in a formula by a name; returns the formula and the
/// dimensions.
fn with_names(text: &str) -> (String, Vec<(String, String)>) {
    let (mut formula, mut dimensions) = (String::new(), Vec::new());
    let mut rest = text;
    while let Some((before, name, place, behind)) = next_dimension(rest) {
        formula.push_str(before);
        formula.push_str(&format!("{DIMENSION}{}", dimensions.len()));
        dimensions.push((name.to_owned(), place.to_owned()));
        rest = behind;
    }
    formula.push_str(rest);
    (formula, dimensions)
}

/// Finds the first `instruction:dimension` of a text; returns the text before it, the instruction,
/// the dimension, and the text after it.
fn next_dimension(text: &str) -> Option<(&str, &str, &str, &str)> {
    let is_colon = |at: usize| {
        let bytes = text.as_bytes();
        let next = |i: usize| bytes.get(i).copied();
        next(at) == Some(b':')
            && next(at + 1) != Some(b':')
            && at.checked_sub(1).and_then(next) != Some(b':')
    };
    let colon = (0..text.len()).find(|&at| is_colon(at))?;
    let (left, right) = (text.get(..colon)?, text.get(colon + 1..)?);
    let named = |c: char| c.is_alphanumeric() || "_.%:-".contains(c);
    let name = left.trim_end_matches(' ').rsplit(|c| !named(c)).next()?;
    // A minus sign is not part of a name.
    let name = name.trim_start_matches('-');
    let before = left.trim_end_matches(' ').strip_suffix(name)?;
    let right = right.trim_start_matches(' ');
    let end = right.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (place, behind) = right.split_at(end.unwrap_or(right.len()));
    Some((before, name, place, behind))
}

struct Explanation<'a> {
    module: &'a Module,
    derivations: &'a [Derivation],
    /// Descriptions of the relations that were substituted.
    relations: Vec<String>,
}

impl Explanation<'_> {
    /// Parses a formula over sizes of dimensions and symbols.
    fn size(&self, text: &str) -> anyhow::Result<Term> {
        let (formula, dimensions) = with_names(text);
        let sizes: Vec<Term> = (dimensions.iter())
            .map(|(name, place)| self.dimension(name, place))
            .collect::<Result<_, _>>()?;
        let symbols = &self.module.symbols;
        // While the text is parsed, dimensions are variables numbered after the symbols.
        let symbol = |name: &str| {
            let position = match name.strip_prefix(DIMENSION) {
                Some(number) => number.parse::<usize>().ok()? + symbols.len(),
                None => symbols.iter().position(|symbol| &*symbol.name == name)?,
            };
            Some(Var(u32::try_from(position).ok()?))
        };
        let size = parse(&formula, &symbol).with_context(|| {
            let known: Vec<&str> = symbols.iter().map(|symbol| &*symbol.name).collect();
            let known = match known.as_slice() {
                [] => "the program has no open sizes".to_owned(),
                _ => format!("its open sizes are {}", known.join(", ")),
            };
            format!(
                "`{text}` is neither a dimension such as `dot.3:0` nor a formula over dimensions and the program's open sizes; {known}"
            )
        })?;
        let dimension = |Var(number): Var| {
            let place = (number as usize).checked_sub(symbols.len())?;
            sizes.get(place).cloned()
        };
        Ok(size.substitute(&mut { dimension }))
    }

    /// Returns the size of dimension `K` of an instruction's result, or `LEAF.K` if that is a
    /// tuple.
    fn dimension(&self, name: &str, place: &str) -> anyhow::Result<Term> {
        let module = self.module;
        let shape = &module[crate::instruction_names::named(module, name)?].shape;
        let (leaf, dimension) = place.split_once('.').unwrap_or(("0", place));
        let wrong = || {
            anyhow!(
                "`{place}` is not a dimension of `{name}`: expected a number as in `0`, or `LEAF.K` \
                 as in `1.0` for a tuple"
            )
        };
        let leaf: usize = leaf.parse().map_err(|_| wrong())?;
        let dimension: usize = dimension.parse().map_err(|_| wrong())?;
        let mut leaves = Vec::new();
        shape.for_each_leaf(&mut |shape| leaves.push(shape));
        let array = leaves.get(leaf).and_then(|shape| Shape::as_array(shape));
        let array = array.ok_or_else(|| {
            anyhow!(
                "`{name}` has no array {leaf}: it has {} arrays",
                leaves.len()
            )
        })?;
        let dim = array.dims.get(dimension);
        let dim = dim.ok_or_else(|| {
            let of = match leaves.len() {
                1 => format!("`{name}`"),
                _ => format!("array {leaf} of `{name}`"),
            };
            match array.rank() {
                0 => anyhow!("{of} is a scalar and has no dimension {dimension}"),
                1 => anyhow!("{of} has no dimension {dimension}: its only dimension is 0"),
                rank => anyhow!(
                    "{of} has {rank} dimensions, 0 to {}, but no dimension {dimension}",
                    rank - 1
                ),
            }
        })?;
        Ok(dim.term())
    }

    /// Expresses a size in symbols that nothing determines, and records each relation that it uses.
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
                display_term(&Term::var(derivation.symbol), symbols),
                display_term(&derivation.value, symbols),
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
