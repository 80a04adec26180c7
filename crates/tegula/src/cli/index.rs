//! `tegula index`: the indexing maps of a program's instructions.

use super::inputs::{DimArgs, read_module};
use super::report::Failure;
use super::{Common, SUCCESS};
use anyhow::anyhow;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::path::PathBuf;
use tegula_expr::{Style, Var};
use tegula_indexing::{
    Exactness, OperandIndexing, Session, fusion_output_to_input, input_to_output, output_to_input,
};
use tegula_ir::{InstructionId, Module, Op};

/// Which way maps go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DirectionName {
    /// From an element of the result to the elements it is computed from.
    OutputToInput,
    /// From an element of an operand to the elements computed from it.
    InputToOutput,
}

/// How maps are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StyleName {
    /// As XLA prints them now.
    Xla,
    /// As the documents print them, with `floordiv`.
    Document,
}

impl From<StyleName> for Style {
    fn from(name: StyleName) -> Self {
        match name {
            StyleName::Xla => Self::Xla,
            StyleName::Document => Self::Document,
        }
    }
}

/// The options of `tegula index`.
#[derive(Debug, Args)]
pub(crate) struct IndexArgs {
    /// The program: HLO text.
    pub model: PathBuf,
    #[command(flatten)]
    pub dims: DimArgs,
    /// Only this instruction.
    #[arg(long, value_name = "NAME")]
    pub instruction: Option<String>,
    /// Which way.
    #[arg(long, value_enum, default_value = "output-to-input")]
    pub direction: DirectionName,
    /// How maps are printed.
    #[arg(long, value_enum, default_value = "xla")]
    pub style: StyleName,
    /// Print the rules that simplified each map.
    #[arg(long)]
    pub explain: bool,
}

/// Prints indexing maps.
pub(crate) fn index(args: &IndexArgs, common: &Common) -> Result<u8, Failure> {
    let source = read_module(&args.model, &args.dims)?;
    let module = &source.module;
    let mut session = if args.explain {
        Session::new().explaining()
    } else {
        Session::new()
    };
    let mut all = Vec::new();
    for id in chosen(module, args.instruction.as_deref())? {
        let operands = match args.direction {
            DirectionName::OutputToInput if matches!(module[id].op, Op::Fusion { .. }) => {
                fusion_output_to_input(module, id, 0, &mut session)
            }
            DirectionName::OutputToInput => output_to_input(module, id),
            DirectionName::InputToOutput => input_to_output(module, id),
        };
        let operands: Vec<Printed> = operands
            .iter()
            .map(|o| printed(o, args.style.into(), &mut session, module))
            .collect();
        if common.json {
            all.push(instruction_json(module, id, args.direction, &operands));
        } else {
            print_instruction(module, id, &operands);
        }
    }
    if common.json {
        println!("{}", json!({ "instructions": all }));
    }
    Ok(SUCCESS)
}

/// The named instruction, or all of the entry computation.
fn chosen(module: &Module, name: Option<&str>) -> anyhow::Result<Vec<InstructionId>> {
    let entry = module.entry_computation();
    let Some(name) = name else {
        return Ok(entry.instructions.clone());
    };
    let name = name.trim_start_matches('%');
    // The entry's own first; names are unique only within a computation.
    let everywhere = module.computations.values().flat_map(|c| &c.instructions);
    let mut candidates = entry.instructions.iter().chain(everywhere);
    match candidates.find(|&&id| &*module[id].name == name) {
        Some(&id) => Ok(vec![id]),
        None => Err(anyhow!("there is no instruction `{name}`")),
    }
}

struct Printed {
    operand: usize,
    maps: Vec<String>,
    /// For each map, the rules that simplified it, if they are asked for.
    steps: Vec<Vec<String>>,
    exact: bool,
    unknown: Option<String>,
}

fn printed(
    operand: &OperandIndexing,
    style: Style,
    session: &mut Session,
    module: &Module,
) -> Printed {
    let number = operand.operand;
    match &operand.maps {
        Ok(maps) => {
            let exact = maps.iter().all(|m| m.exactness == Exactness::Exact);
            let mut printed = Printed {
                operand: number,
                maps: Vec::new(),
                steps: Vec::new(),
                exact,
                unknown: None,
            };
            for map in maps {
                let (simplified, report) = session.simplify_with_report(map);
                printed.maps.push(simplified.display(style).to_string());
                let names = |var: Var| map.name(var);
                let steps = report
                    .steps
                    .iter()
                    .map(|s| s.display(&names, style).to_string());
                printed.steps.push(steps.collect());
            }
            printed
        }
        Err(unknown) => Printed {
            operand: number,
            maps: Vec::new(),
            steps: Vec::new(),
            exact: false,
            unknown: Some(format!(
                "{} ({})",
                unknown.cause, module[unknown.instruction].name
            )),
        },
    }
}

fn instruction_json(
    module: &Module,
    id: InstructionId,
    direction: DirectionName,
    operands: &[Printed],
) -> Value {
    let operands: Vec<Value> = operands
        .iter()
        .map(|o| {
            let mut object = json!({
                "operand": o.operand,
                "maps": o.maps,
                "exact": o.exact,
                "unknown": o.unknown,
            });
            if o.steps.iter().any(|steps| !steps.is_empty()) {
                object["steps"] = json!(o.steps);
            }
            object
        })
        .collect();
    let direction = match direction {
        DirectionName::OutputToInput => "output-to-input",
        DirectionName::InputToOutput => "input-to-output",
    };
    json!({ "name": &*module[id].name, "direction": direction, "operands": operands })
}

fn print_instruction(module: &Module, id: InstructionId, operands: &[Printed]) {
    let instruction = &module[id];
    println!(
        "{} = {} {}",
        instruction.name,
        instruction.shape,
        instruction.op.opcode()
    );
    for operand in operands {
        let note = if operand.exact { "" } else { " (superset)" };
        for (map, steps) in operand.maps.iter().zip(&operand.steps) {
            println!("  operand {}:{note} {map}", operand.operand);
            steps.iter().for_each(|step| println!("    {step}"));
        }
        if let Some(unknown) = &operand.unknown {
            println!("  operand {}: unknown: {unknown}", operand.operand);
        }
    }
}
