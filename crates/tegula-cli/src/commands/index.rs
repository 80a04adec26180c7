//! `tegula index`: the indexing maps of a program's instructions.

use crate::documents::{self, InstructionMaps, Maps, OperandMaps};
use crate::exit_code::SUCCESS;
use crate::inputs::{DimArgs, read_module};
use crate::options::Common;
use crate::report::Failure;
use crate::terminal::count;
use clap::{Args, ValueEnum};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::PathBuf;
use tegula_expr::{Style, Var};
use tegula_indexing::{
    Coalescing, Exactness, IndexingMap, OperandIndexing, Simplifier, Unknown, Utilization, Warp,
    coalescing, fusion_input_to_output, fusion_output_to_input, passed_on, row_major_address,
    utilization,
};
use tegula_ir::{ArrayShape, InstructionId, Module, Op, Shape};

mod tiles;

use tegula_draw::tiles::PictureLimits;
use tiles::{TileArgs, Tiled};

/// Sizes of a picture that fit a terminal.
const TEXT_LIMITS: PictureLimits = PictureLimits {
    rows: 16,
    columns: 64,
};
/// Sizes of a picture that fit a page.
const SVG_LIMITS: PictureLimits = PictureLimits {
    rows: 48,
    columns: 64,
};

/// Which way maps go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DirectionName {
    /// From an element of the result to the elements that it is computed from.
    OutputToInput,
    /// From an element of an operand to the elements that are computed from it.
    InputToOutput,
}

/// How maps are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StyleName {
    /// As current versions of XLA print them.
    Xla,
    /// As XLA's documentation prints them, with `floordiv`.
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
    /// The program's file: HLO text, StableHLO (text or bytecode), an artifact that `jax.export`
    /// serialized, or an ONNX model. The contents decide which one it is. `-` reads standard input.
    pub model: PathBuf,
    #[command(flatten)]
    pub dims: DimArgs,
    /// Print the maps of this instruction alone, in any computation. Without it, those of all
    /// instructions of the entry computation are printed.
    #[arg(long, value_name = "NAME")]
    pub instruction: Option<String>,
    /// The direction of the maps.
    #[arg(long, value_enum, default_value = "output-to-input")]
    pub direction: DirectionName,
    /// The notation for maps.
    #[arg(long, value_enum, default_value = "xla")]
    pub style: StyleName,
    /// Print the rules that simplified each map, in order, each with the term before and after.
    #[arg(long, visible_alias = "why")]
    pub explain: bool,
    #[command(flatten)]
    pub tiles: TileArgs,
}

/// Prints indexing maps.
pub(crate) fn index(args: &IndexArgs, common: &Common) -> Result<u8, Failure> {
    let source = read_module(&args.model, &args.dims)?;
    let module = &source.module;
    let mut simplifier = if args.explain {
        Simplifier::new().explaining()
    } else {
        Simplifier::new()
    };
    let mut all = Vec::new();
    for id in chosen(module, args.instruction.as_deref())? {
        let operands = of_all_results(module, id, args.direction, &mut simplifier);
        let operands: Vec<Printed> = operands
            .iter()
            .map(|o| {
                let mut printed = printed(o, args.style.into(), &mut simplifier, module);
                if args.direction == DirectionName::OutputToInput {
                    printed.uses = Uses::of(module, id, o);
                }
                printed
            })
            .collect();
        let tiled = match args.tiles.tiles {
            Some(_) => tiled(module, id, &args.tiles, &mut simplifier)?,
            None => Vec::new(),
        };
        if common.json {
            let mut own = document(module, id, args.direction, operands);
            if args.tiles.tiles.is_some() {
                own.tiles = Some(tiled.iter().map(|tiled| tiled.document(module)).collect());
            }
            all.push(own);
        } else {
            print_instruction(module, id, &operands);
            tiled.iter().for_each(|tiled| tiled.print(module));
            draw(module, id, &tiled, &args.tiles)?;
        }
        if let (Some(path), Some(first)) = (&args.tiles.svg, tiled.first()) {
            let picture = first.picture(module, id, SVG_LIMITS)?;
            crate::terminal::result_file::write(path, tegula_draw::tiles::svg(&picture))?;
        }
    }
    if common.json {
        documents::print(&Maps { instructions: all });
    }
    Ok(SUCCESS)
}

/// Returns the tiling of each array of an instruction's result.
fn tiled(
    module: &Module,
    id: InstructionId,
    args: &TileArgs,
    simplifier: &mut Simplifier,
) -> anyhow::Result<Vec<Tiled>> {
    let mut all = Vec::new();
    for output in 0..module[id].shape.leaf_count() {
        if passed_on(module, id, output).is_some() {
            continue;
        }
        match Tiled::of(module, id, output, args, simplifier) {
            Some(Ok(tiled)) => all.push(tiled),
            Some(Err(unknown)) => {
                anyhow::bail!("{}: {}", module[unknown.instruction].name, unknown.cause)
            }
            None => {}
        }
    }
    Ok(all)
}

/// Draws tiles as text if `--draw` is given.
fn draw(
    module: &Module,
    id: InstructionId,
    tiled: &[Tiled],
    args: &TileArgs,
) -> anyhow::Result<()> {
    if !args.draw {
        return Ok(());
    }
    for tiled in tiled {
        let picture = tiled.picture(module, id, TEXT_LIMITS)?;
        say!(
            "{}",
            tegula_draw::tiles::text(&picture).trim_end_matches('\n')
        );
    }
    Ok(())
}

/// Returns the maps of each operand's arrays, merged over all arrays of the result.
fn of_all_results(
    module: &Module,
    id: InstructionId,
    direction: DirectionName,
    simplifier: &mut Simplifier,
) -> Vec<OperandIndexing> {
    let mut all: Vec<OperandIndexing> = Vec::new();
    let mut places: HashMap<(usize, usize), usize> = HashMap::new();
    for result in 0..module[id].shape.leaf_count().max(1) {
        let found = match (passed_on(module, id, result), direction) {
            // An array that is only passed on has one source; the other operands are skipped,
            // however many there are.
            (Some(source), _) => vec![source],
            (None, DirectionName::OutputToInput) => {
                fusion_output_to_input(module, id, result, simplifier)
            }
            (None, DirectionName::InputToOutput) => {
                fusion_input_to_output(module, id, result, simplifier)
            }
        };
        for own in found {
            match places.entry((own.operand, own.leaf)) {
                Entry::Vacant(place) => {
                    place.insert(all.len());
                    all.push(own);
                }
                Entry::Occupied(place) => {
                    if let Some(known) = all.get_mut(*place.get()) {
                        add_maps(&mut known.maps, own.maps);
                    }
                }
            }
        }
    }
    all.sort_by_key(|own| (own.operand, own.leaf));
    all
}

fn add_maps(
    known: &mut Result<Vec<IndexingMap>, Unknown>,
    more: Result<Vec<IndexingMap>, Unknown>,
) {
    match (known, more) {
        (Ok(known), Ok(more)) => {
            for map in more {
                if !known.contains(&map) {
                    known.push(map);
                }
            }
        }
        (known @ Ok(_), more @ Err(_)) => *known = more,
        (Err(_), _) => {}
    }
}

/// How a fusion reads an operand.
struct Uses {
    utilization: Utilization,
    /// For each map, the coalescing of the first warp's loads, with the operand's own layout or
    /// else row-major.
    coalescing: Vec<Option<Coalescing>>,
}

impl Uses {
    /// Returns `None` if the instruction is not a fusion, or if its reads cannot be counted.
    fn of(module: &Module, id: InstructionId, operand: &OperandIndexing) -> Option<Self> {
        if !matches!(module[id].op, Op::Fusion { .. }) {
            return None;
        }
        let maps = operand.maps.as_ref().ok()?;
        let array = operand_array(module, id, operand)?;
        let sizes = array.static_dims()?;
        let address = row_major_address(&sizes, array.layout.as_deref());
        let bytes = array.element_type.storage_bytes() as i64;
        let load =
            |map: &IndexingMap| coalescing(map, address.as_ref()?, bytes, Warp::default(), 0);
        Some(Self {
            utilization: utilization(maps, &sizes)?,
            coalescing: maps.iter().map(load).collect(),
        })
    }
}

fn operand_array<'a>(
    module: &'a Module,
    id: InstructionId,
    operand: &OperandIndexing,
) -> Option<&'a ArrayShape> {
    let shape = module.operand_shape(id, operand.operand)?;
    match shape {
        Shape::Array(array) if operand.leaf == 0 => Some(array),
        _ => None,
    }
}

/// Returns the named instruction, or all instructions of the entry computation.
fn chosen(module: &Module, name: Option<&str>) -> anyhow::Result<Vec<InstructionId>> {
    let entry = module.entry_computation();
    let Some(name) = name else {
        return Ok(entry.instructions.clone());
    };
    Ok(vec![crate::instruction_names::named(module, name)?])
}

struct Printed {
    operand: usize,
    /// The array's number within a tuple.
    leaf: usize,
    uses: Option<Uses>,
    maps: Vec<String>,
    /// For each map, the participant whose array it leads to, if that is another one.
    participants: Vec<Option<String>>,
    /// For each map, the rules that simplified it, if `--explain` is given.
    steps: Vec<Vec<String>>,
    exact: bool,
    unknown: Option<String>,
}

fn printed(
    operand: &OperandIndexing,
    style: Style,
    simplifier: &mut Simplifier,
    module: &Module,
) -> Printed {
    let mut printed = Printed {
        operand: operand.operand,
        leaf: operand.leaf,
        uses: None,
        maps: Vec::new(),
        participants: Vec::new(),
        steps: Vec::new(),
        exact: false,
        unknown: None,
    };
    match &operand.maps {
        Ok(maps) => {
            printed.exact = maps.iter().all(|m| m.exactness == Exactness::Exact);
            for map in maps {
                let (simplified, report) = simplifier.simplify_with_report(map);
                printed.maps.push(simplified.display(style).to_string());
                let names = |var: Var| map.name(var);
                let participant = simplified.participant.as_ref();
                let position = participant.map(|p| p.position.display(&names, style).to_string());
                printed.participants.push(position);
                let steps = report
                    .steps
                    .iter()
                    .map(|s| s.display(&names, style).to_string());
                printed.steps.push(steps.collect());
            }
        }
        Err(unknown) => {
            let instruction = &module[unknown.instruction].name;
            printed.unknown = Some(format!("{} ({instruction})", unknown.cause));
        }
    }
    printed
}

fn document(
    module: &Module,
    id: InstructionId,
    direction: DirectionName,
    operands: Vec<Printed>,
) -> InstructionMaps {
    InstructionMaps {
        name: module[id].name.to_string(),
        direction: match direction {
            DirectionName::OutputToInput => "output-to-input",
            DirectionName::InputToOutput => "input-to-output",
        },
        operands: operands.into_iter().map(Printed::document).collect(),
        tiles: None,
    }
}

impl Printed {
    fn document(self) -> OperandMaps {
        let (utilization, coalescing) = self.uses.map(Uses::documents).unzip();
        let explained = self.steps.iter().any(|steps| !steps.is_empty());
        let shared = self.participants.iter().any(Option::is_some);
        OperandMaps {
            operand: self.operand,
            maps: self.maps,
            exact: self.exact,
            unknown: self.unknown,
            steps: explained.then_some(self.steps),
            participants: shared.then_some(self.participants),
            leaf: (self.leaf > 0).then_some(self.leaf),
            utilization,
            coalescing,
        }
    }
}

impl Uses {
    fn documents(self) -> (documents::Utilization, Vec<Option<documents::Coalescing>>) {
        let number = |big: &dyn std::fmt::Display| big.to_string().parse().ok();
        let utilization = documents::Utilization {
            distinct: number(&self.utilization.distinct),
            elements: number(&self.utilization.elements),
            reads: number(&self.utilization.reads),
            exact: self.utilization.exact,
        };
        let load = |load: Coalescing| documents::Coalescing {
            sectors: load.sectors,
            ideal: load.ideal,
            bytes: load.bytes,
        };
        let loads = self.coalescing.into_iter().map(|found| found.map(load));
        (utilization, loads.collect())
    }
}

fn print_instruction(module: &Module, id: InstructionId, operands: &[Printed]) {
    let instruction = &module[id];
    say!(
        "{} = {} {}",
        instruction.name,
        instruction.shape,
        instruction.op.opcode()
    );
    for operand in operands {
        let note = if operand.exact { "" } else { " (superset)" };
        let name = match operand.leaf {
            0 => operand.operand.to_string(),
            leaf => format!("{}, array {leaf}", operand.operand),
        };
        for (position, (map, steps)) in operand.maps.iter().zip(&operand.steps).enumerate() {
            let whose = match operand.participants.get(position) {
                Some(Some(whose)) => format!(", of participant {whose} of the group"),
                _ => String::new(),
            };
            say!("  operand {name}:{note} {map}{whose}");
            for step in steps {
                say!("    {step}");
            }
            let load = operand
                .uses
                .as_ref()
                .and_then(|uses| uses.coalescing.get(position));
            if let Some(Some(load)) = load {
                let Coalescing { sectors, ideal, .. } = load;
                let sectors = count(usize::try_from(*sectors).unwrap_or(usize::MAX), "sector");
                say!("    a warp's load: {sectors} of 32 bytes, {ideal} at best");
            }
        }
        if let Some(Uses { utilization, .. }) = &operand.uses
            && !operand.maps.is_empty()
        {
            say!(
                "    utilisation: {}{} of {} elements ({:.1} %), {:.2} reads per element",
                if utilization.exact { "" } else { "at most " },
                utilization.distinct,
                utilization.elements,
                100.0 * utilization.fraction(),
                utilization.reads_per_element(),
            );
        }
        if let Some(unknown) = &operand.unknown {
            say!("  operand {name}: unknown: {unknown}");
        }
    }
}
