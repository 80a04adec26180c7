//! Traversals of terms: bottom-up folding, substitution, and collecting variables.
//!
//! Small trees are traversed by recursion. Large ones use an explicit stack and a memo by address,
//! so depth needs no call stack, and a shared subterm is visited once.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::term::{Node, SMALL, Term, Var};

/// Atoms with their coefficients; see [`Term::as_linear`].
pub type LinearTerms = SmallVec<[(Term, i64); 4]>;

impl Term {
    /// Folds the term bottom-up: `f` is given each term with the results of its direct subterms,
    /// from left to right.
    pub fn fold<R: Clone>(&self, mut f: &mut dyn FnMut(&Self, &[R]) -> R) -> R {
        self.fold_with(&mut f, &|_, _| None, &|f, term, children| f(term, children))
    }

    /// Like [`Term::fold`], with a state for both functions. Terms for which `known` returns a
    /// result are not traversed.
    pub(crate) fn fold_with<S, R: Clone>(
        &self,
        state: &mut S,
        known: &dyn Fn(&S, &Self) -> Option<R>,
        f: &dyn Fn(&mut S, &Self, &[R]) -> R,
    ) -> R {
        if self.size() <= SMALL {
            if let Some(result) = known(state, self) {
                return result;
            }
            let results: SmallVec<[R; 3]> = self
                .node()
                .children()
                .into_iter()
                .map(|child| child.fold_with(state, known, f))
                .collect();
            return f(state, self, &results);
        }
        let mut done: FxHashMap<usize, R> = FxHashMap::default();
        let mut stack = vec![(self, false)];
        let mut last = None;
        while let Some((term, expanded)) = stack.pop() {
            if !expanded {
                if done.contains_key(&term.address()) {
                    continue;
                }
                if let Some(result) = known(state, term) {
                    done.insert(term.address(), result.clone());
                    last = Some(result);
                    continue;
                }
                stack.push((term, true));
                let children = term.node().children();
                stack.extend(children.into_iter().map(|child| (child, false)));
                continue;
            }
            let children = term.node().children();
            let results: SmallVec<[R; 3]> = children
                .iter()
                .filter_map(|child| done.get(&child.address()).cloned())
                .collect();
            debug_assert_eq!(results.len(), children.len());
            let result = f(state, term, &results);
            done.insert(term.address(), result.clone());
            last = Some(result);
        }
        // The root is pushed first and folded last.
        last.unwrap_or_else(|| f(state, self, &[]))
    }

    /// Rebuilds the term from folded subterms with the smart constructors.
    pub(crate) fn rebuild(&self, children: &[Self]) -> Self {
        match (self.node(), children) {
            (Node::Add(..), [a, b]) => a.add(b),
            (Node::Mul(..), [a, b]) => a.mul(b),
            (Node::FloorDiv(..), [a, b]) => a.floor_div(b),
            (Node::CeilDiv(..), [a, b]) => a.ceil_div(b),
            (Node::Mod(..), [a, b]) => a.modulo(b),
            (Node::Min(..), [a, b]) => a.min(b),
            (Node::Max(..), [a, b]) => a.max(b),
            (Node::Cmp(op, ..), [a, b]) => Self::cmp(*op, a, b),
            (Node::Select(..), [c, a, b]) => Self::select(c, a, b),
            _ => self.clone(),
        }
    }

    /// Replaces the variables for which `f` returns a term.
    #[must_use]
    pub fn substitute(&self, f: &mut dyn FnMut(Var) -> Option<Self>) -> Self {
        self.fold(&mut |term: &Self, children: &[Self]| {
            if let Some(var) = term.as_var() {
                return f(var).unwrap_or_else(|| term.clone());
            }
            let same = |(new, old): (&Self, &Self)| new.address() == old.address();
            if children.iter().zip(term.node().children()).all(same) {
                return term.clone();
            }
            term.rebuild(children)
        })
    }

    /// Calls `f` for each occurrence of a variable, from left to right. Occurrences in a subterm
    /// that is shared by address are reported once.
    pub fn for_each_var(&self, f: &mut dyn FnMut(Var)) {
        let mut seen = FxHashSet::default();
        let mut stack: SmallVec<[&Self; 16]> = SmallVec::from_iter([self]);
        while let Some(term) = stack.pop() {
            if let Some(var) = term.as_var() {
                f(var);
                continue;
            }
            if self.size() <= SMALL || seen.insert(term.address()) {
                stack.extend(term.node().children().into_iter().rev());
            }
        }
    }

    /// Whether the variable occurs.
    pub fn mentions(&self, var: Var) -> bool {
        let mut found = false;
        self.for_each_var(&mut |v| found |= v == var);
        found
    }

    /// The term as `constant + sum of coefficient * atom`. Atoms are neither sums nor multiples,
    /// distinct and sorted, and coefficients are not zero. `None` if the numbers grow too large.
    pub fn as_linear(&self) -> Option<(LinearTerms, i64)> {
        let linear = crate::canon::Linear::try_from_term(self)?;
        Some((linear.terms, linear.constant))
    }

    /// Whether the term has no division, remainder, minimum, maximum,
    /// comparison or selection, and no product of two variables.
    pub fn is_affine(&self) -> bool {
        self.fold(&mut |term: &Self, children: &[bool]| match term.node() {
            Node::Const(_) | Node::Var(_) => true,
            Node::Add(..) => children.iter().all(|child| *child),
            Node::Mul(a, b) => {
                children.iter().all(|child| *child)
                    && (a.as_constant().is_some() || b.as_constant().is_some())
            }
            _ => false,
        })
    }
}
