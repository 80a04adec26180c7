//! Finds an instruction by the name that a user typed.

use anyhow::anyhow;
use strsim::levenshtein;
use tegula_ir::{InstructionId, Module};

/// Finds an instruction by `name` or `computation::name`, because names are unique only within a
/// computation. For a bare name, the entry computation's instruction takes precedence.
///
/// # Errors
/// No instruction has the name (the error suggests the most similar one), or several have it.
pub(crate) fn named(module: &Module, name: &str) -> anyhow::Result<InstructionId> {
    let bare = |name: &'_ str| name.trim().trim_start_matches('%').to_owned();
    let (computation, own) = match name.split_once("::") {
        Some((computation, own)) => (Some(bare(computation)), bare(own)),
        None => (None, bare(name)),
    };
    let all = module.computations.iter().flat_map(|(id, of)| {
        let instructions = of.instructions.iter().map(move |&own| (id, &*of.name, own));
        instructions.filter(|(_, of, _)| computation.as_deref().is_none_or(|name| name == *of))
    });
    let all: Vec<_> = all.collect();
    let found = all.iter().filter(|(_, _, id)| *module[*id].name == *own);
    let found: Vec<_> = found.collect();
    let entry = found.iter().find(|(of, ..)| *of == module.entry);
    match (entry, found.as_slice()) {
        (Some((_, _, id)), _) | (None, [(_, _, id)]) => Ok(*id),
        (None, []) => {
            let spelled = |(_, of, id): &(_, &str, InstructionId)| match computation {
                Some(_) => format!("{of}::{}", module[*id].name),
                None => module[*id].name.to_string(),
            };
            let wanted = computation
                .as_deref()
                .map_or(own.clone(), |of| format!("{of}::{own}"));
            let near = all
                .iter()
                .map(spelled)
                .min_by_key(|name| levenshtein(name, &wanted));
            let near = near.filter(|name| levenshtein(name, &wanted) <= wanted.len().div_ceil(3));
            Err(match (near, all.is_empty()) {
                (Some(near), _) => {
                    anyhow!("there is no instruction `{name}`; did you mean `{near}`?")
                }
                (None, false) => anyhow!("there is no instruction `{name}`"),
                (None, true) => no_computation(module, computation.as_deref().unwrap_or_default()),
            })
        }
        (None, several) => {
            let names = several
                .iter()
                .map(|(_, of, id)| format!("`{of}::{}`", module[*id].name));
            let names: Vec<String> = names.collect();
            Err(anyhow!(
                "several instructions have the name `{name}`: use {}",
                names.join(" or ")
            ))
        }
    }
}

fn no_computation(module: &Module, wanted: &str) -> anyhow::Error {
    let names = module.computations.values().map(|of| &*of.name);
    match nearest(names, wanted) {
        Some(near) => anyhow!("there is no computation `{wanted}`; did you mean `{near}`?"),
        None => anyhow!("there is no computation `{wanted}`"),
    }
}

/// Returns the name most similar to another, if it is similar enough.
pub(crate) fn nearest<'n>(names: impl Iterator<Item = &'n str>, wanted: &str) -> Option<&'n str> {
    let near = names.min_by_key(|name| levenshtein(name, wanted));
    near.filter(|near| levenshtein(near, wanted) <= wanted.len().div_ceil(3))
}
