//! Maps the lines of a kernel's text to the statements that they show.

use crate::KernelText;
use tegula_expr::Var;
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Block, IndexVar, Statement};

/// The meaning of a line of a kernel's text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KernelLine<'k> {
    /// A dimension of the domain.
    Domain(Var),
    /// A statement. For a loop or conditional, this is its first line; nested statements have their
    /// own lines.
    Statement(&'k Statement),
}

/// The lines of [`KernelText`], counted from 1, that show a dimension of the domain or a statement.
pub fn kernel_lines(kernel: &Kernel) -> Vec<(usize, KernelLine<'_>)> {
    let is_domain = |var: &&Var| matches!(kernel.var(**var), Some(IndexVar::Domain(_)));
    let symbols = kernel.vars.iter();
    let symbols = symbols.filter(|var| matches!(var, IndexVar::Symbol { .. }));
    let first = 2 + symbols.count();
    let domain = kernel.domain.iter().filter(is_domain).enumerate();
    let mut lines: Vec<_> = domain
        .map(|(at, &var)| (first + at, KernelLine::Domain(var)))
        .collect();
    // The body ends just before the last brace.
    let all = KernelText(kernel).to_string().lines().count();
    let mut next = all - length(&kernel.body);
    block_lines(&kernel.body, &mut next, &mut lines);
    lines
}

fn block_lines<'k>(block: &'k Block, next: &mut usize, lines: &mut Vec<(usize, KernelLine<'k>)>) {
    for statement in &block.statements {
        lines.push((*next, KernelLine::Statement(statement)));
        *next += 1;
        match statement {
            Statement::Loop { body, .. } => {
                block_lines(body, next, lines);
                *next += 1;
            }
            Statement::If {
                then, otherwise, ..
            } => {
                block_lines(then, next, lines);
                *next += 1;
                block_lines(otherwise, next, lines);
                *next += 1;
            }
            _ => {}
        }
    }
    *next += usize::from(!block.results.is_empty());
}

/// The number of lines in the text of a block.
fn length(block: &Block) -> usize {
    let mut next = 0;
    block_lines(block, &mut next, &mut Vec::new());
    next
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_kernel;

    #[test]
    fn each_line_says_its_statement() {
        let text = "kernel(read f32[8, 16], write f32[8]) {
  for i0 < 8
  unused i2 loop < 4
  unused v7:f32
  v0:f32 = constant 0x0
  loop i1 < 16 (v1:f32) = (v0) -> (v2:f32) {
    v3:f32 = load 0[i0, i1]
    if i1 < 4 -> (v4:f32) {
      yield v3
    } else {
      v5:f32 = negate v3
      yield v5
    }
    v6:f32 = add v1, v4
    yield v6
  }
  store 1[i0] = v2
}
";
        let kernel = parse_kernel(text).expect("a kernel");
        let printed = KernelText(&kernel).to_string();
        let words: Vec<(usize, &str)> = kernel_lines(&kernel)
            .into_iter()
            .map(|(line, what)| {
                let text = printed.lines().nth(line - 1).expect("a line");
                let word = match what {
                    KernelLine::Domain(_) => "for",
                    KernelLine::Statement(Statement::Compute { .. }) => " = ",
                    KernelLine::Statement(Statement::Load { .. }) => "load",
                    KernelLine::Statement(Statement::Store { .. }) => "store",
                    KernelLine::Statement(Statement::Loop { .. }) => "loop",
                    KernelLine::Statement(Statement::If { .. }) => "if",
                    KernelLine::Statement(Statement::Bind { .. }) => "bind",
                };
                assert!(text.contains(word), "line {line} is {text}");
                (line, word)
            })
            .collect();
        let expected = [
            (2, "for"),
            (5, " = "),
            (6, "loop"),
            (7, "load"),
            (8, "if"),
            (11, " = "),
            (14, " = "),
            (17, "store"),
        ];
        assert_eq!(words, expected);
    }
}
