//! Index expressions: every class, query, getter and operation that "Infrastructure
//! for Shape Inference and Lowering" (Eichenberger) names, slide by slide; scopes
//! and their misuse; tiles.

use tegula_expr::index::{IndexError, IndexExpr, Kind, KnownInScope, Phase, Role, Scope};
use tegula_expr::{
    Extract, Interval, KnownOperand, Numbers, Operands, Residue, Symbols, Term, Values, Var,
};

const EXTENT: Interval = Interval::new(0, 1 << 31);

/// A scope with the dims `d` and `e`, the symbol `s` and the question mark `q`.
fn scope() -> (Scope, [IndexExpr; 4]) {
    let mut scope = Scope::new();
    let d = scope.dim("d", EXTENT).expect("a dim");
    let e = scope.dim("e", EXTENT).expect("a dim");
    let s = scope.symbol("s", EXTENT).expect("a symbol");
    let q = scope.question_mark("q", EXTENT).expect("a question mark");
    (scope, [d, e, s, q])
}

// ---- slide "I. IndexExpr": the subclasses ------------------------------------------

#[test]
fn slide_index_expr_every_class() {
    let (scope, [d, e, s, q]) = scope();
    let two = scope.literal(2);
    let half = scope.float_literal(0.5).expect("exact");
    let affine = scope.add(&scope.mul(&d, &two).unwrap(), &s).unwrap();
    let kinds = [
        (IndexExpr::undefined(), Kind::Undefined),
        (two.clone(), Kind::Literal),
        (half, Kind::Literal),
        (affine.clone(), Kind::Affine),
        (scope.floor_div(&affine, &two).unwrap(), Kind::Affine),
        (scope.modulo(&d, &scope.literal(7)).unwrap(), Kind::Affine),
        (scope.mul(&d, &e).unwrap(), Kind::NonAffine),
        (scope.floor_div(&d, &e).unwrap(), Kind::NonAffine),
        (scope.min(&[d.clone(), e.clone()]).unwrap(), Kind::NonAffine),
        (scope.lt(&d, &e).unwrap(), Kind::Predicate),
        (d.clone(), Kind::Dim),
        (s.clone(), Kind::Symbol),
        (q.clone(), Kind::QuestionMark),
        (scope.add(&q, &d).unwrap(), Kind::QuestionMark),
    ];
    for (expr, kind) in kinds {
        assert_eq!(expr.kind(), kind, "{expr:?}");
    }
}

// ---- slide "I. IndexExpr": queries and getters ---------------------------------------

#[test]
fn slide_index_expr_every_query() {
    let (scope, [d, e, s, q]) = scope();
    let two = scope.literal(2);
    let half = scope.float_literal(0.5).unwrap();
    let affine = scope.sub(&scope.mul(&d, &two).unwrap(), &s).unwrap();
    let product = scope.mul(&d, &e).unwrap();
    let less = scope.lt(&d, &e).unwrap();
    let none = IndexExpr::undefined();
    type Query = fn(&IndexExpr) -> bool;
    let queries: [(&str, Query, [bool; 9]); 11] = [
        // of            two    half   affine product less  d      s      q      none
        (
            "hasAffineExpr",
            IndexExpr::has_affine_expr,
            [true, false, true, false, false, true, true, false, false],
        ),
        (
            "hasValue",
            IndexExpr::has_value,
            [true, true, true, true, true, true, true, false, false],
        ),
        (
            "isDefined",
            IndexExpr::is_defined,
            [true, true, true, true, true, true, true, true, false],
        ),
        (
            "isUndefined",
            IndexExpr::is_undefined,
            [false, false, false, false, false, false, false, false, true],
        ),
        (
            "isLiteral",
            IndexExpr::is_literal,
            [true, true, false, false, false, false, false, false, false],
        ),
        (
            "isFloat",
            IndexExpr::is_float,
            [false, true, false, false, false, false, false, false, false],
        ),
        (
            "isAffine",
            IndexExpr::is_affine,
            [false, false, true, false, false, false, false, false, false],
        ),
        (
            "isPredicate",
            IndexExpr::is_predicate,
            [false, false, false, false, true, false, false, false, false],
        ),
        (
            "isDim",
            IndexExpr::is_dim,
            [false, false, false, false, false, true, false, false, false],
        ),
        (
            "isSymbol",
            IndexExpr::is_symbol,
            [false, false, false, false, false, false, true, false, false],
        ),
        (
            "isQuestionmark",
            IndexExpr::is_question_mark,
            [false, false, false, false, false, false, false, true, false],
        ),
    ];
    let all = [&two, &half, &affine, &product, &less, &d, &s, &q, &none];
    for (name, query, expected) in queries {
        assert_eq!(all.map(query), expected, "{name}");
    }
    assert!(product.is_non_affine() && !affine.is_non_affine());
    assert!(two.is_literal_and_identical_to(2) && !two.is_literal_and_identical_to(3));
    assert!(two.is_literal_and_different_than(3) && !d.is_literal_and_different_than(3));
    assert!(two.is_literal_and_greater_than(1) && !two.is_literal_and_greater_than(2));
    assert!(two.is_literal_and_smaller_than(3) && !q.is_literal_and_smaller_than(3));
}

#[test]
fn slide_index_expr_every_getter() {
    let (scope, [d, e, _, q]) = scope();
    let two = scope.literal(2);
    assert_eq!(two.get_literal(), Some(2));
    assert_eq!(d.get_literal(), None);
    let scale = scope.float_literal(2.5).unwrap();
    assert_eq!(
        (scale.get_literal(), scale.get_float_literal()),
        (None, Some(2.5))
    );
    let sum = scope.add(&d, &two).unwrap();
    assert_eq!(sum.get_affine_expr(), Some(&(Term::var(Var(0)) + 2)));
    assert_eq!(scope.mul(&d, &e).unwrap().get_affine_expr(), None);
    // getValue: what code computes.
    let mut numbers = Numbers(Values {
        dims: &[],
        elements: &[],
    });
    let value = sum.get_value(&mut numbers, &mut |_, _| Ok(40));
    assert_eq!(value, Some(Ok(42)));
    assert_eq!(q.get_value(&mut numbers, &mut |_, _| Ok(40)), None);
    assert_eq!(sum.eval(&|_| Some(1)), Ok(3));
}

// ---- slide "I. IndexExpr": operations --------------------------------------------------

#[test]
fn slide_index_expr_every_operation() {
    let (scope, [d, e, s, _]) = scope();
    type Two = fn(&Scope, &IndexExpr, &IndexExpr) -> Result<IndexExpr, IndexError>;
    type Meaning = fn(i64, i64) -> i64;
    let operations: [(&str, Two, Meaning); 12] = [
        ("+", Scope::add, |a, b| a + b),
        ("-", Scope::sub, |a, b| a - b),
        ("*", Scope::mul, |a, b| a * b),
        ("floorDiv", Scope::floor_div, |a, b| a.div_euclid(b)),
        ("ceilDiv", Scope::ceil_div, |a, b| -(-a).div_euclid(b)),
        ("%", Scope::modulo, |a, b| a.rem_euclid(b)),
        ("==", Scope::eq, |a, b| i64::from(a == b)),
        ("!=", Scope::ne, |a, b| i64::from(a != b)),
        ("<", Scope::lt, |a, b| i64::from(a < b)),
        ("<=", Scope::le, |a, b| i64::from(a <= b)),
        (">", Scope::gt, |a, b| i64::from(a > b)),
        (">=", Scope::ge, |a, b| i64::from(a >= b)),
    ];
    for (name, operation, meaning) in operations {
        let result = operation(&scope, &d, &e).unwrap();
        for (a, b) in [(0, 1), (7, 3), (3, 7), (5, 5), (12, 4)] {
            let at = |Var(var): Var| Some([a, b][var as usize]);
            assert_eq!(result.eval(&at), Ok(meaning(a, b)), "{a} {name} {b}");
            let known = operation(&scope, &scope.literal(a), &scope.literal(b)).unwrap();
            assert_eq!(known.get_literal(), Some(meaning(a, b)), "{a} {name} {b}");
        }
    }
    let (few, equal) = (scope.lt(&d, &e).unwrap(), scope.eq(&d, &s).unwrap());
    let both = scope.and(&few, &equal).unwrap();
    let one = scope.or(&few, &equal).unwrap();
    let not = scope.not(&few).unwrap();
    let chosen = scope.select(&few, &d, &e).unwrap();
    let clamped = scope.clamp(&d, &e, &s).unwrap();
    let all = [d.clone(), e.clone(), s.clone()];
    let (least, most) = (scope.min(&all).unwrap(), scope.max(&all).unwrap());
    assert!(both.is_predicate() && one.is_predicate() && not.is_predicate());
    for [d, e, s] in [[1, 2, 1], [1, 2, 3], [2, 1, 2], [4, 1, 3], [5, 5, 5]] {
        let at = |Var(var): Var| Some([d, e, s][var as usize]);
        assert_eq!(both.eval(&at), Ok(i64::from(d < e && d == s)));
        assert_eq!(one.eval(&at), Ok(i64::from(d < e || d == s)));
        assert_eq!(not.eval(&at), Ok(i64::from(d >= e)));
        assert_eq!(chosen.eval(&at), Ok(d.min(e)));
        assert_eq!(clamped.eval(&at), Ok(d.max(e).min(s)));
        assert_eq!(least.eval(&at), Ok(d.min(e).min(s)));
        assert_eq!(most.eval(&at), Ok(d.max(e).max(s)));
    }
}

#[test]
fn arithmetic_forgets_nothing() {
    let (scope, [d, _, _, q]) = scope();
    for unknown in [&d, &q] {
        let three = scope.literal(3);
        let sum = scope.add(unknown, &three).unwrap();
        assert_eq!(&scope.sub(&sum, &three).unwrap(), unknown);
        let two = scope.literal(2);
        let double = scope.mul(unknown, &two).unwrap();
        assert_eq!(&scope.floor_div(&double, &two).unwrap(), unknown);
        let same = scope
            .eq(&double, &scope.add(unknown, unknown).unwrap())
            .unwrap();
        assert_eq!(same.get_literal(), Some(1));
    }
}

#[test]
fn float_literals_are_exact() {
    let (scope, [d, ..]) = scope();
    let scale = scope.float_literal(2.5).unwrap();
    let scaled = scope.mul(&d, &scale).unwrap();
    assert!(scaled.is_float() && scaled.is_non_affine() && scaled.term().is_none());
    let (down, up) = (scope.floor(&scaled).unwrap(), scope.ceil(&scaled).unwrap());
    assert_eq!(down.kind(), Kind::Affine);
    for size in 0..50i64 {
        assert_eq!(down.eval(&|_| Some(size)), Ok((size * 5).div_euclid(2)));
        assert_eq!(up.eval(&|_| Some(size)), Ok((size * 5 + 1).div_euclid(2)));
    }
    // A third as an f32 is a little more than a third.
    let third = scope.float_literal(f64::from(1.0f32 / 3.0)).unwrap();
    let third = scope.floor(&scope.mul(&d, &third).unwrap()).unwrap();
    assert_eq!(third.eval(&|_| Some(300)), Ok(100));
    // Ratios are exact: a third of a dim, times three, is the dim.
    let back = scope.mul(
        &scope.div(&d, &scope.literal(3)).unwrap(),
        &scope.literal(3),
    );
    assert_eq!(scope.floor(&back.unwrap()).unwrap(), d);
    let compared = scope
        .lt(&scope.float_literal(0.25).unwrap(), &scope.literal(1))
        .unwrap();
    assert_eq!(compared.get_literal(), Some(1));
    let least = scope
        .min(&[scope.float_literal(1.5).unwrap(), scope.literal(2)])
        .unwrap();
    assert_eq!(least.get_float_literal(), Some(1.5));
    for value in [f64::NAN, f64::INFINITY, 1e300, 1e-300] {
        assert!(matches!(
            scope.float_literal(value),
            Err(IndexError::NotRepresentable(_))
        ));
    }
    assert_eq!(scope.add(&scaled, &d).unwrap().get_literal(), None);
    assert_eq!(scope.floor_div(&scaled, &d), Err(IndexError::NotAnInteger));
    assert_eq!(
        scope.div(&d, &scope.literal(0)),
        Err(IndexError::DivisionByZero)
    );
}

// ---- slide "I. IndexExpr (cont.)": scopes ------------------------------------------------

#[test]
fn slide_scope_expressions_stay_in_their_scope() {
    let (outer, [d, ..]) = scope();
    let (other, [e, ..]) = scope();
    assert_eq!(outer.add(&d, &e), Err(IndexError::ForeignScope));
    assert_eq!(other.floor(&d), Err(IndexError::ForeignScope));
    assert_ne!(d, e, "the same name in another scope is another input");
    // Literals belong to every scope.
    assert!(other.add(&e, &outer.literal(3)).is_ok());
    assert_eq!(
        outer.add(&d, &IndexExpr::undefined()),
        Err(IndexError::Undefined)
    );
    assert!(outer.expr(&Term::var(Var(99))).is_err());
}

#[test]
fn slide_scope_a_dim_outside_is_a_symbol_inside() {
    let (outer, [d, _, s, q]) = scope();
    let mut inner = outer.nested();
    let i = inner.dim("i", EXTENT).unwrap();
    assert_eq!(inner.add(&i, &d), Err(IndexError::ForeignScope));
    let own = inner.import(&outer, &d).unwrap();
    assert_eq!(own.kind(), Kind::Symbol);
    let sum = outer
        .add(&outer.mul(&d, &s).unwrap(), &outer.literal(1))
        .unwrap();
    let sum = inner.import(&outer, &sum).unwrap();
    let own_s = inner.import(&outer, &s).unwrap();
    let product = inner.mul(&own, &own_s).unwrap();
    let rest = inner.sub(&sum, &product).unwrap();
    assert_eq!(
        rest.get_literal(),
        Some(1),
        "what was known outside is known inside"
    );
    assert!(inner.import(&outer, &q).unwrap().is_question_mark());
    assert!(inner.add(&i, &own).unwrap().is_affine());
    // Two levels; imports in other directions are errors.
    let mut innermost = inner.nested();
    assert!(innermost.import(&inner, &i).unwrap().is_symbol());
    assert!(innermost.import(&outer, &d).unwrap().is_symbol());
    assert_eq!(inner.import(&innermost, &i), Err(IndexError::ForeignScope));
    let (mut stranger, _) = scope();
    assert_eq!(stranger.import(&outer, &d), Err(IndexError::NotEnclosing));
    assert_eq!(inner.import(&outer, &i), Err(IndexError::ForeignScope));
    assert_eq!(
        inner.import(&outer, &inner.literal(4)),
        Ok(inner.literal(4))
    );
}

#[test]
fn slide_scope_an_input_is_not_both_dim_and_symbol() {
    let (mut scope, [d, ..]) = scope();
    assert_eq!(scope.dim("d", EXTENT), Ok(d.clone()));
    let error = scope.symbol("d", EXTENT).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`d` is a dim of this scope and cannot also be a symbol"
    );
    let mut inner = scope.nested();
    inner.dim("d", EXTENT).unwrap();
    assert!(matches!(
        inner.import(&scope, &d),
        Err(IndexError::Roles { .. })
    ));
}

#[test]
fn what_is_known_adds_up_or_contradicts() {
    let mut scope = Scope::new();
    let n = scope.dim("n", Interval::new(1, 100)).unwrap();
    let even = Residue::new(2, 0);
    scope.declare("n", Role::Dim, Interval::FULL, even).unwrap();
    let two = scope.literal(2);
    let halves = scope
        .mul(&scope.floor_div(&n, &two).unwrap(), &two)
        .unwrap();
    assert_eq!(halves, n);
    assert_eq!(scope.gt(&n, &two).unwrap().kind(), Kind::Predicate);
    assert_eq!(scope.ge(&n, &two).unwrap().get_literal(), Some(1));
    let error = scope.dim("n", Interval::new(200, 300)).unwrap_err();
    assert!(matches!(error, IndexError::Contradiction { .. }));
    let zero = scope.literal(0);
    assert_eq!(scope.floor_div(&n, &zero), Err(IndexError::DivisionByZero));
    assert_eq!(scope.and(&n, &n), Err(IndexError::NotAPredicate));
    assert_eq!(scope.min(&[]), Err(IndexError::Empty));
}

// ---- tiles ----------------------------------------------------------------------------------

#[test]
fn tiles_are_full_or_partial() {
    let mut scope = Scope::new();
    let extent = scope.symbol("n", Interval::new(0, 1000)).unwrap();
    let start = scope.dim("i", Interval::new(0, 1000)).unwrap();
    let block = scope.literal(16);
    let full = scope.is_full_tile(&start, &block, &extent).unwrap();
    let size = scope.tile_size(&start, &block, &extent).unwrap();
    let partial = scope.partial_tile_size(&extent, &block).unwrap();
    let count = scope.tile_count(&extent, &block).unwrap();
    for n in 0..70i64 {
        for i in (0..n).step_by(16) {
            let at = |Var(var): Var| Some([n, i][var as usize]);
            let own = (n - i).min(16);
            assert_eq!(full.eval(&at), Ok(i64::from(own == 16)), "{i} of {n}");
            assert_eq!(size.eval(&at), Ok(own), "{i} of {n}");
            assert_eq!(partial.eval(&at), Ok(n % 16));
            assert_eq!(count.eval(&at), Ok((n + 15) / 16));
        }
    }
    // Full by construction: the extent is a multiple, and tiles begin at multiples.
    let mut scope = Scope::new();
    let multiple = Residue::new(16, 0);
    let some = Interval::new(16, 1 << 20);
    let n = scope.declare("n", Role::Symbol, some, multiple).unwrap();
    assert_eq!(
        scope.partial_tile_size(&n, &block).unwrap().get_literal(),
        Some(0)
    );
    let zero = scope.literal(0);
    assert_eq!(
        scope.is_full_tile(&zero, &block, &n).unwrap().get_literal(),
        Some(1)
    );
    assert_eq!(
        scope.tile_size(&zero, &block, &n).unwrap().get_literal(),
        Some(16)
    );
}

// ---- slide "II. IndexExprBuilder": taking numbers out -------------------------------------------

/// Operand 0 of two extents, the second known; operand 1 a constant array of two
/// elements; operand 2 a computed one.
fn operands() -> Vec<KnownOperand> {
    let array = |elements: Option<Vec<i64>>| KnownOperand {
        dims: vec![Some(2)],
        elements,
    };
    vec![
        KnownOperand {
            dims: vec![None, Some(8)],
            elements: None,
        },
        array(Some(vec![5, -7])),
        array(None),
    ]
}

#[test]
fn slide_builder_every_extraction() {
    for phase in [Phase::Analysis, Phase::Lowering] {
        let mut scope = Scope::new();
        let known = operands();
        let mut provider = Symbols(KnownInScope::new(&mut scope, &known, phase));
        // getIntFromArrayAsLiteral, getIntFromArrayAsLiterals
        let attribute = [3, 4];
        let literal = provider.int_from_array_as_literal(&attribute, 1).unwrap();
        assert_eq!(provider.int_from_array_as_literal(&attribute, 2), None);
        let literals = provider.ints_from_array_as_literals(&attribute);
        // getIntFromArrayAsSymbol, of a constant and of a computed operand
        let constant = provider.int_from_operand_as_symbol(1, 1);
        let computed = provider.int_from_operand_as_symbol(2, 1);
        let all = provider.ints_from_operand_as_symbols(2, 2);
        assert_eq!(
            provider.ints_from_operand_as_literals(1, 2).as_deref(),
            Some(&[5, -7][..])
        );
        assert_eq!(provider.ints_from_operand_as_literals(2, 2), None);
        // getShapeAsDim
        let (open, static_) = (provider.shape_as_dim(0, 0), provider.shape_as_dim(0, 1));
        let dims = provider.shape_as_dims(0, 2);
        let count = provider.element_count(0, 2);
        assert!(provider.0.misuse().is_none());
        let kind = |term: &Term| scope.expr(term).unwrap().kind();
        assert_eq!((kind(&literal), literals.len()), (Kind::Literal, 2));
        assert_eq!(scope.expr(&constant).unwrap().get_literal(), Some(-7));
        let expected = match phase {
            Phase::Analysis => Kind::QuestionMark,
            Phase::Lowering => Kind::Symbol,
        };
        assert_eq!(kind(&computed), expected, "{phase:?}");
        assert_eq!(all[1], computed);
        let expected = match phase {
            Phase::Analysis => Kind::QuestionMark,
            Phase::Lowering => Kind::Dim,
        };
        assert_eq!((kind(&open), kind(&static_)), (expected, Kind::Literal));
        assert_eq!(dims.as_slice(), [open.clone(), static_]);
        assert_eq!(count, open * 8);
    }
}

#[test]
fn slide_builder_three_functions_are_enough() {
    // A provider of one's own defines getConst, getValue and getShape.
    struct Own;
    impl Operands for Own {
        type Index = Term;
        fn shape(&mut self, operand: usize, dim: usize) -> Term {
            Term::constant((operand * 10 + dim) as i64)
        }
        fn constant(&mut self, operand: usize, flat: usize) -> Option<i64> {
            (operand == 0).then_some(flat as i64)
        }
        fn value(&mut self, _: usize, flat: usize) -> Term {
            Term::var(Var(flat as u32))
        }
    }
    let mut provider = Symbols(Own);
    assert_eq!(provider.int_from_operand_as_symbol(0, 4), Term::constant(4));
    assert_eq!(provider.int_from_operand_as_symbol(1, 4), Term::var(Var(4)));
    assert_eq!(
        provider.shape_as_dims(3, 2).as_slice(),
        [30.into(), 31.into()]
    );
}
