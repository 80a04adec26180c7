//! Sizes in machine code: random computations against the provider of numbers,
//! faults included.

#[path = "../../expr/tests/all/common/mod.rs"]
mod common;

use common::{Random, VALUES, random_computation};
use tegula_codegen_cpu::{Error, SizeCode};
use tegula_expr::{EvalError, Extract, KnownOperand, Numbers, Values};

#[test]
fn machine_code_means_what_numbers_mean() {
    let open = |dims: usize| KnownOperand {
        dims: vec![None; dims],
        elements: None,
    };
    let known = [
        vec![open(3), open(1), open(1)],
        vec![
            KnownOperand {
                dims: vec![None, Some(4), Some(6)],
                elements: None,
            },
            open(1),
            KnownOperand {
                dims: vec![Some(2)],
                elements: Some(vec![-3, 9]),
            },
        ],
    ];
    let mut faults = 0;
    for case in 0..300 {
        for (mode, known) in known.iter().enumerate() {
            let code = SizeCode::compile::<Error>(known, |provider| {
                Ok(random_computation(provider, &mut Random(case)))
            });
            let code = code.expect("this machine can be compiled for");
            let mut random = Random(case ^ 0x77);
            for _ in 0..30 {
                let mut next = || VALUES[(random.next() % 12) as usize];
                let mut dims = [vec![next(), next(), next()], vec![2], vec![2]];
                let mut elements = [vec![], vec![next(), next()], vec![next(), next()]];
                if mode == 1 {
                    (dims[0][1], dims[0][2]) = (4, 6);
                    elements[2] = vec![-3, 9];
                }
                let mut numbers = Numbers(Values {
                    dims: &dims,
                    elements: &elements,
                });
                let expected = random_computation(&mut numbers, &mut Random(case));
                let expected: Result<Vec<i64>, EvalError> = expected.into_iter().collect();
                faults += usize::from(expected.is_err());
                let found = code.run(&dims, &elements);
                assert_eq!(found, expected, "case {case}: {dims:?} {elements:?}");
            }
        }
    }
    assert!(faults > 1000, "{faults} computations without a value");
}

#[test]
fn what_is_not_there_is_not_read() {
    let known = [KnownOperand {
        dims: vec![None; 2],
        elements: None,
    }];
    let code = SizeCode::compile::<Error>(&known, |provider| {
        Ok(vec![
            provider.shape_as_dim(0, 1),
            provider.int_from_operand_as_symbol(0, 5),
        ])
    });
    let code = code.expect("this machine can be compiled for");
    assert_eq!(code.run(&[vec![1, 2]], &[vec![0; 6]]), Ok(vec![2, 0]));
    assert!(code.run(&[vec![1]], &[vec![0; 6]]).is_err());
    assert!(code.run(&[vec![1, 2]], &[vec![0; 5]]).is_err());
    assert!(code.run(&[], &[]).is_err());
}
