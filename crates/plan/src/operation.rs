//! A module that consists of a single operation. The evaluator runs library operations as such
//! modules, and the plan's text uses them to write attributes as HLO does.

use tegula_ir::{
    Annotations, ArrayShape, Error, Instruction, InstructionId, Module, ModuleBuilder, Op, Opcode,
    PrintStyle, Shape, parse_module, print_instruction,
};

/// A module whose entry computation applies an operation to its parameters, in order.
///
/// # Errors
/// Operands that do not suit the operation.
pub fn module_of(
    op: &Op,
    operands: &[&ArrayShape],
    results: &[&ArrayShape],
) -> Result<Module, Error> {
    let mut builder = ModuleBuilder::new("operation");
    let mut main = builder.computation("main");
    let array = |shape: &ArrayShape| Shape::Array(shape.clone());
    let operands: Vec<_> = operands.iter().map(|s| main.parameter(array(s))).collect();
    let root = main.push_with_shape(op.clone(), &operands, joined(results))?;
    let entry = main.finish(root)?;
    Ok(builder.build_unverified(entry))
}

/// The shape of an operation with these results: an array, or a tuple.
fn joined(results: &[&ArrayShape]) -> Shape {
    match results {
        [one] => Shape::Array((*one).clone()),
        several => Shape::Tuple(several.iter().map(|&s| Shape::Array(s.clone())).collect()),
    }
}

/// An operation's attributes as HLO writes them: empty, or `, name=value, ...`.
pub(super) fn print_attributes(
    op: &Op,
    operands: &[&ArrayShape],
    results: &[&ArrayShape],
) -> Result<String, Error> {
    let module = module_of(op, operands, results)?;
    let root = module.entry_computation().root;
    let text = print_instruction(&module, root, PrintStyle::Short);
    // The line is `name = shape opcode(operands), attributes`, and names contain no brackets.
    let call = format!(" {}(", op.opcode().name());
    let attributes = text
        .split_once(&call)
        .and_then(|(_, rest)| rest.split_once(')'));
    Ok(attributes
        .map(|(_, rest)| rest.to_owned())
        .unwrap_or_default())
}

/// The text of a module for [`read`], and the offset in it where the attributes begin.
pub(super) struct Wrapped {
    text: String,
    start: usize,
}

/// Writes the text of a module with one operation that has the attributes from a plan's text.
pub(super) fn wrap(
    opcode: Opcode,
    attributes: &str,
    operands: &[&ArrayShape],
    results: &[&ArrayShape],
) -> Wrapped {
    let plain = |shape: &ArrayShape| shape.with_element_type(shape.element_type);
    let results: Vec<ArrayShape> = results.iter().map(|s| plain(s)).collect();
    let mut text = "HloModule operation\n\nENTRY main {\n".to_owned();
    let mut names = Vec::with_capacity(operands.len());
    for (i, operand) in operands.iter().enumerate() {
        text += &format!("  a{i} = {} parameter({i})\n", plain(operand));
        names.push(format!("a{i}"));
    }
    let shape = joined(&results.iter().collect::<Vec<_>>());
    text += &format!(
        "  ROOT result = {shape} {}({})",
        opcode.name(),
        names.join(", ")
    );
    let start = text.len();
    text += attributes;
    text += "\n}\n";
    Wrapped { text, start }
}

impl Wrapped {
    /// The length of the text in bytes.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }
}

/// Moves `backend_config=` into the custom call; see `CustomCall::to_run`.
fn with_config_in_call(module: &Module, root: InstructionId) -> Instruction {
    let operands = module.operand_shapes(root);
    let mut root = module[root].clone();
    if let Op::CustomCall(call) = &mut root.op
        && let Some(annotations) = &mut root.annotations
        && annotations.backend_config.is_some()
    {
        **call = call.to_run(Some(annotations), &operands, &root.shape);
        annotations.backend_config = None;
        if **annotations == Annotations::default() {
            root.annotations = None;
        }
    }
    root
}

/// Parses the operation. An error comes with its byte offset in the attributes.
pub(super) fn read(
    wrapped: &Wrapped,
    opcode: Opcode,
    operands: &[&ArrayShape],
    results: &[&ArrayShape],
) -> Result<Op, (usize, String)> {
    let module = parse_module(&wrapped.text).map_err(|error| {
        let offset = (error.span().start as usize).saturating_sub(wrapped.start);
        (offset, error.message().to_owned())
    })?;
    let entry = module.entry_computation();
    let root = with_config_in_call(&module, entry.root);
    // The attributes must not have introduced other instructions.
    let alone = module.computations.len() == 1
        && entry.instructions.len() == entry.parameters.len() + 1
        && root.operands[..] == entry.parameters[..]
        && root.annotations.is_none();
    if !alone || root.op.opcode() != opcode {
        return Err((
            0,
            "expected only attributes of the operation, found instructions or other operands"
                .to_owned(),
        ));
    }
    // An operation that cannot be built could be neither printed nor run.
    match module_of(&root.op, operands, results) {
        Ok(_) => Ok(root.op.clone()),
        Err(error) => Err((0, error.message().to_owned())),
    }
}
