//! Reads the pretty forms of the dialects of Pallas kernels: arith, math, vector, memref, scf and
//! tpu.
//!
//! Most consist of operands, attributes and types (`%a, %b {...} : type`, `a to b`, `a -> b`),
//! which [`Parser::kernel_values`] reads; memory, control flow and copies have their own forms.
//! These operations are printed in the generic form, which reads back to the same.

use super::Parser;
use super::operations::{Argument, Use};
use crate::Error;
use crate::mlir::{Attribute, Block, Operation, Region, Type, VectorType};
use std::sync::Arc;

/// An operation and the types of its results.
type Read = Result<(Operation, Vec<Type>), Error>;

/// The names of MLIR's predicates, by number.
const INTEGER_PREDICATES: [&str; 10] = [
    "eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge",
];
const FLOAT_PREDICATES: [&str; 16] = [
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule",
    "une", "uno", "true",
];

fn i32s(values: &[i64]) -> Attribute {
    Attribute::IntegerArray {
        element: Type::signless(32),
        values: values.into(),
    }
}

impl Parser<'_> {
    /// Reads an operation of a kernel's dialect, from after its name; [`None`] for other dialects.
    pub(super) fn kernel_operation(&mut self, name: &str) -> Option<Read> {
        let (dialect, _) = name.split_once('.')?;
        if !matches!(
            dialect,
            "arith" | "math" | "vector" | "memref" | "scf" | "tpu"
        ) {
            return None;
        }
        Some(match name {
            "arith.constant" => self.kernel_constant(name),
            "arith.cmpi" => self.kernel_compare(name, &INTEGER_PREDICATES),
            "arith.cmpf" => self.kernel_compare(name, &FLOAT_PREDICATES),
            "vector.load" | "tpu.strided_load" | "memref.load" | "tpu.vector_load" => {
                self.kernel_load(name)
            }
            "vector.store" | "memref.store" => self.kernel_store(name),
            "tpu.vector_store" | "tpu.strided_store" => self.kernel_vector_store(name),
            "vector.extract" => self.kernel_extract(name),
            "vector.multi_reduction" | "vector.reduction" => self.kernel_reduction(name),
            "tpu.memref_slice" => self.kernel_slice(name),
            "tpu.enqueue_dma" | "tpu.wait_dma" | "tpu.wait_dma2" => self.kernel_copy(name),
            "tpu.sem_signal" => self.kernel_signal(name),
            "scf.if" => self.kernel_if(),
            "scf.for" => self.kernel_for(),
            "scf.while" => self.kernel_while(),
            "scf.condition" => self.kernel_condition(),
            _ => self.kernel_values(name),
        })
    }

    fn kernel_uses(&mut self) -> Result<Vec<Use>, Error> {
        let mut uses = Vec::new();
        while self.scanner.peek() == Some(b'%') {
            uses.push(self.value_use()?);
            let mut ahead = self.scanner.clone();
            if !(ahead.eat(",") && ahead.peek() == Some(b'%')) {
                break;
            }
            self.scanner.expect(",")?;
        }
        Ok(uses)
    }

    fn kernel_bind(&mut self, operation: &mut Operation, uses: &[Use]) -> Result<(), Error> {
        for used in uses {
            let value = self.resolve(used)?;
            operation.operands.push(value);
        }
        Ok(())
    }

    /// Skips `overflow<nsw>` and `fastmath<fast>`, which do not change results.
    fn kernel_flags(&mut self) -> Result<(), Error> {
        for word in ["overflow", "fastmath"] {
            let mut ahead = self.scanner.clone();
            if ahead.eat_word(word) && ahead.eat("<") {
                self.scanner.eat_word(word);
                self.scanner.expect("<")?;
                self.scanner.balanced(b'>')?;
            }
        }
        Ok(())
    }

    /// Reads operands, attributes and types; text between them gives some attributes.
    fn kernel_values(&mut self, name: &str) -> Read {
        let mut operation = Operation::new(name);
        let uses = self.kernel_uses()?;
        self.kernel_infix(&mut operation, &uses)?;
        self.kernel_bind(&mut operation, &uses)?;
        if &*operation.name == "tpu.dynamic_rotate" {
            self.scanner.expect_word("by")?;
            let amount = self.value_use()?;
            self.kernel_bind(&mut operation, &[amount])?;
            self.scanner.expect_word("dim")?;
            let dimension = self.scanner.integer()?;
            let value = Attribute::i64(dimension);
            operation.attributes.push(("dimension".into(), value));
        }
        self.kernel_flags()?;
        operation.attributes.extend(self.optional_dictionary()?);
        let mut results = Vec::new();
        if self.scanner.eat(":") {
            let types = match self.scanner.peek() {
                Some(b'(') => self.type_list_in_parentheses()?,
                _ => self.type_list()?,
            };
            if self.scanner.eat_word("to") || self.scanner.eat("->") {
                results = self.result_types()?;
            } else if name == "arith.select" {
                results = types.last().cloned().into_iter().collect();
            } else if kernel_gives(name) {
                results = types.first().cloned().into_iter().collect();
            }
        }
        Ok((operation, results))
    }

    /// Reads the text that some operations have between their operands and their attributes.
    fn kernel_infix(&mut self, operation: &mut Operation, uses: &[Use]) -> Result<(), Error> {
        let mut set = |name: &str, value: Attribute| {
            operation.attributes.push((name.into(), value));
        };
        match &*operation.name.clone() {
            "tpu.concatenate" => {
                self.scanner.expect_word("in")?;
                set("dimension", Attribute::i64(self.scanner.integer()?));
            }
            "tpu.transpose" | "vector.transpose" => {
                self.scanner.expect(",")?;
                let list = self.list("[", "]", |parser| parser.scanner.integer())?;
                set("permutation", Attribute::i64s(&list));
            }
            "tpu.assume_multiple" => {
                self.scanner.expect(",")?;
                set("multiple", Attribute::i64(self.scanner.integer()?));
            }
            "tpu.repeat" => {
                self.scanner.expect(",")?;
                set("dimension", Attribute::i64(self.scanner.integer()?));
                self.scanner.expect_word("x")?;
                set("times", Attribute::i64(self.scanner.integer()?));
            }
            "tpu.iteration_bound" => set("dim", Attribute::i64(self.scanner.integer()?)),
            "tpu.unpack_elementwise" => {
                self.scanner.expect(",")?;
                set("index", Attribute::i64(self.scanner.integer()?));
            }
            "memref.alloca" | "memref.alloc" if uses.is_empty() => {
                self.scanner.expect("(")?;
                self.scanner.expect(")")?;
            }
            _ => {}
        }
        Ok(())
    }

    fn kernel_constant(&mut self, name: &str) -> Read {
        let mut operation = Operation::new(name);
        operation.attributes = self.optional_dictionary()?;
        let value = self.attribute()?;
        let ty = match &value {
            Attribute::Integer { ty, .. } | Attribute::Float { ty, .. } => ty.clone(),
            Attribute::Elements(elements) => elements.ty.clone(),
            _ => return Err(self.scanner.error("expected a constant with its type")),
        };
        operation.attributes.push(("value".into(), value));
        Ok((operation, vec![ty]))
    }

    fn kernel_compare(&mut self, name: &str, predicates: &[&str]) -> Read {
        let mut operation = Operation::new(name);
        let word = self.scanner.word().unwrap_or_default();
        let number = predicates.iter().position(|predicate| *predicate == word);
        let number = number.ok_or_else(|| self.scanner.error("expected a predicate"))?;
        let value = Attribute::i64(number as i64);
        operation.attributes.push(("predicate".into(), value));
        self.scanner.expect(",")?;
        let uses = self.kernel_uses()?;
        self.kernel_bind(&mut operation, &uses)?;
        self.kernel_flags()?;
        operation.attributes.extend(self.optional_dictionary()?);
        self.scanner.expect(":")?;
        let result = match self.ty()? {
            Type::Vector(vector) => Type::Vector(Arc::new(VectorType {
                element: Type::BOOL,
                ..(*vector).clone()
            })),
            _ => Type::BOOL,
        };
        Ok((operation, vec![result]))
    }

    /// Reads `%memory[%i, %j]`.
    fn kernel_place(&mut self) -> Result<Vec<Use>, Error> {
        let mut uses = vec![self.value_use()?];
        uses.extend(self.list("[", "]", Self::value_use)?);
        Ok(uses)
    }

    fn kernel_mask(&mut self) -> Result<Option<Use>, Error> {
        match self.scanner.eat_word("masked") {
            true => Ok(Some(self.value_use()?)),
            false => Ok(None),
        }
    }

    fn kernel_load(&mut self, name: &str) -> Read {
        let mut operation = Operation::new(name);
        let mut uses = self.kernel_place()?;
        let indices = uses.len() as i64 - 1;
        let mask = self.kernel_mask()?;
        let masked = i64::from(mask.is_some());
        uses.extend(mask);
        self.kernel_bind(&mut operation, &uses)?;
        operation.attributes = self.optional_dictionary()?;
        if name == "tpu.vector_load" {
            let sizes = i32s(&[1, indices, masked]);
            operation
                .attributes
                .push(("operandSegmentSizes".into(), sizes));
        }
        self.scanner.expect(":")?;
        let memory = self.ty()?;
        let result = match self.scanner.eat(",") {
            true => self.ty()?,
            false => match memory {
                Type::MemRef(memref) => memref.element.clone(),
                _ => {
                    return Err(self
                        .scanner
                        .error("expected a memory type, such as `memref<8x128xf32>`"));
                }
            },
        };
        if self.scanner.eat(",") && masked == 1 {
            self.ty()?;
        }
        Ok((operation, vec![result]))
    }

    /// Reads `%value, %memory[%i]`.
    fn kernel_store(&mut self, name: &str) -> Read {
        let mut operation = Operation::new(name);
        let mut uses = vec![self.value_use()?];
        self.scanner.expect(",")?;
        uses.extend(self.kernel_place()?);
        self.kernel_bind(&mut operation, &uses)?;
        operation.attributes = self.optional_dictionary()?;
        self.scanner.expect(":")?;
        self.type_list()?;
        Ok((operation, Vec::new()))
    }

    /// Reads `%memory[%i], %value masked %mask`, whose first operand is the value.
    fn kernel_vector_store(&mut self, name: &str) -> Read {
        let mut operation = Operation::new(name);
        let place = self.kernel_place()?;
        self.scanner.expect(",")?;
        let mut uses = vec![self.value_use()?];
        let indices = place.len() as i64 - 1;
        uses.extend(place);
        let mask = self.kernel_mask()?;
        let masked = i64::from(mask.is_some());
        uses.extend(mask);
        self.kernel_bind(&mut operation, &uses)?;
        operation.attributes = self.optional_dictionary()?;
        if name == "tpu.vector_store" {
            let sizes = i32s(&[1, 1, indices, masked]);
            operation
                .attributes
                .push(("operandSegmentSizes".into(), sizes));
        }
        self.scanner.expect(":")?;
        self.ty()?;
        self.scanner.expect(",")?;
        self.ty()?;
        // The mask's type; the comma may be present without a mask.
        if self.scanner.eat(",") && masked == 1 {
            self.ty()?;
        }
        Ok((operation, Vec::new()))
    }

    fn kernel_extract(&mut self, name: &str) -> Read {
        let mut operation = Operation::new(name);
        let used = self.value_use()?;
        self.kernel_bind(&mut operation, &[used])?;
        let position = self.list("[", "]", |parser| parser.scanner.integer())?;
        let position = Attribute::i64s(&position);
        operation
            .attributes
            .push(("static_position".into(), position));
        operation.attributes.extend(self.optional_dictionary()?);
        self.scanner.expect(":")?;
        let result = self.ty()?;
        self.scanner.expect_word("from")?;
        self.ty()?;
        Ok((operation, vec![result]))
    }

    /// Reads `<add>, %x, %start [1] : a to b`.
    fn kernel_reduction(&mut self, name: &str) -> Read {
        let mut operation = Operation::new(name);
        self.scanner.expect("<")?;
        let kind = self.scanner.word().unwrap_or_default();
        let kind = Attribute::Opaque {
            dialect: "vector".into(),
            body: format!("kind<{kind}>").into(),
        };
        operation.attributes.push(("kind".into(), kind));
        self.scanner.expect(">")?;
        self.scanner.expect(",")?;
        let uses = self.kernel_uses()?;
        self.kernel_bind(&mut operation, &uses)?;
        if self.scanner.peek() == Some(b'[') {
            let dims = self.list("[", "]", |parser| parser.scanner.integer())?;
            let dims = Attribute::i64s(&dims);
            operation.attributes.push(("reduction_dims".into(), dims));
        }
        self.kernel_flags()?;
        operation.attributes.extend(self.optional_dictionary()?);
        self.scanner.expect(":")?;
        self.ty()?;
        if !self.scanner.eat_word("to") {
            self.scanner.expect_word("into")?;
        }
        Ok((operation, vec![self.ty()?]))
    }

    /// Reads `%memory[%i, %j] <%size> : a -> b`.
    fn kernel_slice(&mut self, name: &str) -> Read {
        let mut operation = Operation::new(name);
        let mut uses = self.kernel_place()?;
        let indices = uses.len() as i64 - 1;
        let mut sizes = Vec::new();
        if self.scanner.peek() == Some(b'<') {
            sizes = self.list("<", ">", Self::value_use)?;
        }
        let dynamic = sizes.len() as i64;
        uses.extend(sizes);
        self.kernel_bind(&mut operation, &uses)?;
        operation.attributes = self.optional_dictionary()?;
        let segments = i32s(&[1, indices, dynamic]);
        operation
            .attributes
            .push(("operandSegmentSizes".into(), segments));
        self.scanner.expect(":")?;
        self.ty()?;
        self.scanner.expect("->")?;
        Ok((operation, vec![self.ty()?]))
    }

    /// Reads `source(%a : type) target(%b : type) target_semaphore(%s : type) device_id(%d)`.
    fn kernel_copy(&mut self, name: &str) -> Read {
        let mut operation = Operation::new(name);
        let groups: &[&str] = match name {
            "tpu.wait_dma2" => &["semaphore", "src", "dst", "device_id", "core_id"],
            _ => &[
                "source",
                "source_semaphore",
                "target",
                "target_semaphore",
                "device_id",
                "core_id",
                "subcore_id",
            ],
        };
        let mut found: Vec<Option<Use>> = vec![None; groups.len()];
        while let Some(word) = self.scanner.peek_word() {
            let Some(group) = groups.iter().position(|group| *group == word) else {
                break;
            };
            self.scanner.expect_word(word)?;
            self.scanner.expect("(")?;
            found[group] = Some(self.value_use()?);
            if self.scanner.eat(":") {
                self.ty()?;
            }
            self.scanner.expect(")")?;
        }
        let sizes: Vec<i64> = found.iter().map(|used| i64::from(used.is_some())).collect();
        let uses: Vec<Use> = found.into_iter().flatten().collect();
        self.kernel_bind(&mut operation, &uses)?;
        operation.attributes = self.optional_dictionary()?;
        operation
            .attributes
            .push(("operandSegmentSizes".into(), i32s(&sizes)));
        Ok((operation, Vec::new()))
    }

    /// Reads `%semaphore, %amount device_id %d core_id %c : type`.
    fn kernel_signal(&mut self, name: &str) -> Read {
        let mut operation = Operation::new(name);
        let mut uses = self.kernel_uses()?;
        let mut sizes = vec![1, 1];
        for word in ["device_id", "core_id", "subcore_id"] {
            let there = self.scanner.eat_word(word);
            if there {
                uses.push(self.value_use()?);
            }
            sizes.push(i64::from(there));
        }
        self.kernel_bind(&mut operation, &uses)?;
        operation.attributes = self.optional_dictionary()?;
        operation
            .attributes
            .push(("operandSegmentSizes".into(), i32s(&sizes)));
        self.scanner.expect(":")?;
        self.ty()?;
        Ok((operation, Vec::new()))
    }

    /// Reads a region of a structured operation, whose final `scf.yield` may be omitted.
    fn kernel_region(&mut self, parent: &str, arguments: Vec<Argument>) -> Result<Region, Error> {
        let mut region = self.region(Some(parent), false, arguments)?;
        if region.blocks.is_empty() {
            region.blocks.push(Block::default());
        }
        if let Some(block) = region.blocks.last_mut() {
            let ends = block.operations.last();
            if ends.is_none_or(|end| !matches!(&*end.name, "scf.yield" | "scf.condition")) {
                block.operations.push(Operation::new("scf.yield"));
            }
        }
        Ok(region)
    }

    fn kernel_if(&mut self) -> Read {
        let mut operation = Operation::new("scf.if");
        let used = self.value_use()?;
        self.kernel_bind(&mut operation, &[used])?;
        let results = match self.scanner.eat("->") {
            true => self.result_types()?,
            false => Vec::new(),
        };
        operation
            .regions
            .push(self.kernel_region("scf.if", Vec::new())?);
        let otherwise = match self.scanner.eat_word("else") {
            true => self.kernel_region("scf.if", Vec::new())?,
            false => Region::default(),
        };
        operation.regions.push(otherwise);
        operation.attributes = self.optional_dictionary()?;
        Ok((operation, results))
    }

    /// Reads `%name = %value, ...`.
    fn kernel_pairs(&mut self) -> Result<(Vec<Arc<str>>, Vec<Use>), Error> {
        let pairs = self.list("(", ")", |parser| {
            let name = parser.defined_name()?;
            parser.scanner.expect("=")?;
            Ok((name, parser.value_use()?))
        })?;
        Ok(pairs.into_iter().unzip())
    }

    fn kernel_arguments(names: Vec<Arc<str>>, types: &[Type]) -> Vec<Argument> {
        let pairs = names.into_iter().zip(types);
        let made = pairs.map(|(name, ty)| Argument {
            name,
            ty: ty.clone(),
            location: None,
        });
        made.collect()
    }

    fn kernel_for(&mut self) -> Read {
        let mut operation = Operation::new("scf.for");
        self.scanner.eat_word("unsigned");
        let mut names = vec![self.defined_name()?];
        self.scanner.expect("=")?;
        let mut uses = vec![self.value_use()?];
        for word in ["to", "step"] {
            self.scanner.expect_word(word)?;
            uses.push(self.value_use()?);
        }
        let mut results = Vec::new();
        if self.scanner.eat_word("iter_args") {
            let (own, given) = self.kernel_pairs()?;
            names.extend(own);
            uses.extend(given);
            self.scanner.expect("->")?;
            results = self.result_types()?;
        }
        let counter = match self.scanner.eat(":") {
            true => self.ty()?,
            false => Type::Index,
        };
        self.kernel_bind(&mut operation, &uses)?;
        let types: Vec<Type> = std::iter::once(counter)
            .chain(results.iter().cloned())
            .collect();
        let arguments = Self::kernel_arguments(names, &types);
        operation
            .regions
            .push(self.kernel_region("scf.for", arguments)?);
        operation.attributes = self.optional_dictionary()?;
        Ok((operation, results))
    }

    fn kernel_while(&mut self) -> Read {
        let mut operation = Operation::new("scf.while");
        let (names, uses) = match self.scanner.peek() {
            Some(b'(') => self.kernel_pairs()?,
            _ => (Vec::new(), Vec::new()),
        };
        self.scanner.expect(":")?;
        let inputs = self.type_list_in_parentheses()?;
        self.scanner.expect("->")?;
        let results = self.result_types()?;
        self.kernel_bind(&mut operation, &uses)?;
        let arguments = Self::kernel_arguments(names, &inputs);
        operation
            .regions
            .push(self.kernel_region("scf.while", arguments)?);
        self.scanner.expect_word("do")?;
        operation
            .regions
            .push(self.kernel_region("scf.while", Vec::new())?);
        if self.scanner.eat_word("attributes") {
            operation.attributes = self.dictionary()?;
        }
        Ok((operation, results))
    }

    /// Reads `(%condition) %a, %b : types`.
    fn kernel_condition(&mut self) -> Read {
        let mut operation = Operation::new("scf.condition");
        self.scanner.expect("(")?;
        let mut uses = vec![self.value_use()?];
        self.scanner.expect(")")?;
        uses.extend(self.kernel_uses()?);
        self.kernel_bind(&mut operation, &uses)?;
        operation.attributes = self.optional_dictionary()?;
        if self.scanner.eat(":") {
            self.type_list()?;
        }
        Ok((operation, Vec::new()))
    }
}

/// Whether an operation with a single type has a result of that type.
fn kernel_gives(name: &str) -> bool {
    !matches!(
        name,
        "scf.yield"
            | "tpu.yield"
            | "tpu.sem_wait"
            | "tpu.trace_value"
            | "tpu.barrier"
            | "tpu.delay"
            | "tpu.prng_set_seed_32"
    )
}
