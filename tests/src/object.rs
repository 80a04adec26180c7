//! Programs as objects, linked by the C compiler and loaded.

use libloading::Library;
use std::ffi::c_void;
use std::path::Path;
use std::process::Command;
use tegula::{IsaLevel, ObjectOptions, Tensor, compile_object};
use tegula_ir::{AlignedBytes, ArrayShape, Literal, Module};
use tegula_layout::apply_layouts::{in_order, stated};

type Call =
    unsafe extern "C" fn(*const i64, *const *const c_void, *const *mut c_void, *mut c_void) -> i32;
type ArenaBytes = unsafe extern "C" fn(*const i64) -> i64;

/// Converts inputs to the dimension orders that the program states, which are those of the object.
///
/// # Panics
/// An order is not a permutation of the input's dimensions: the program was not verified.
pub fn stored_inputs(module: &Module, inputs: &[Literal]) -> Vec<Literal> {
    let (orders, _) = stated(module);
    let inputs = inputs.iter().zip(&orders).map(|(input, order)| {
        let input = Tensor::from(input.clone()).reordered(order);
        input.expect("an order of its dimensions").stored().clone()
    });
    inputs.collect()
}

/// The shapes of an object's results in memory, for results of these logical shapes.
pub fn stored_shapes(module: &Module, results: &[ArrayShape]) -> Vec<ArrayShape> {
    let (_, orders) = stated(module);
    let shapes = results.iter().zip(&orders);
    shapes
        .map(|(shape, order)| in_order(shape, order))
        .collect()
}

/// Converts an object's results from the stated dimension orders to logical arrays.
///
/// # Panics
/// As [`stored_inputs`].
pub fn results_of_stored(module: &Module, stored: Vec<Literal>) -> Vec<Tensor> {
    let (_, orders) = stated(module);
    let tensors = stored.into_iter().zip(&orders).map(|(result, order)| {
        let tensor = Tensor::from_stored(result, order);
        tensor.expect("an order of its dimensions")
    });
    tensors.collect()
}

/// A program that was compiled to an object, linked and loaded.
pub struct LinkedObject(Library);

/// How a program fails as an object.
#[derive(Debug)]
pub enum Failure {
    /// It cannot be compiled to one.
    Compile(tegula::Error),
    /// The linker or the loader refuses it.
    Link(String),
}

impl LinkedObject {
    /// Compiles a program in a folder of its own, in which files are left.
    ///
    /// # Errors
    /// The program cannot be an object, or cannot be linked.
    pub fn new(module: &Module, cpu: IsaLevel, folder: &Path) -> Result<Self, Failure> {
        let object =
            compile_object(module, &ObjectOptions::new("m", cpu)).map_err(Failure::Compile)?;
        let link = |text: String| Failure::Link(text);
        let files = || -> std::io::Result<()> {
            std::fs::create_dir_all(folder)?;
            std::fs::write(folder.join("m.o"), &object.bytes)?;
            std::fs::write(folder.join("m.h"), &object.header)
        };
        files().map_err(|error| link(error.to_string()))?;
        let mut command = Command::new("cc");
        command.current_dir(folder);
        command.args([
            "-shared",
            "-o",
            "m.so",
            "m.o",
            "-Wl,--no-undefined",
            "-lm",
            "-lc",
        ]);
        let output = command.output().map_err(|error| link(error.to_string()))?;
        if !output.status.success() {
            return Err(link(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        // SAFETY: the library runs nothing when it is loaded.
        let library = unsafe { Library::new(folder.join("m.so")) };
        Ok(Self(library.map_err(|error| link(error.to_string()))?))
    }

    /// Runs it. Returns the results, or the status if that is not 0.
    ///
    /// # Panics
    /// The library lacks one of the object's functions, or there is not enough memory.
    pub fn run(
        &self,
        sizes: &[i64],
        inputs: &[Literal],
        results: &[ArrayShape],
    ) -> Result<Vec<Literal>, i32> {
        // SAFETY: these are the types that the object's header declares.
        let (call, arena_bytes) = unsafe {
            let call = self.0.get::<Call>(b"m_call").expect("its function");
            let bytes = self.0.get::<ArenaBytes>(b"m_arena_bytes");
            (call, bytes.expect("its function"))
        };
        // SAFETY: there are as many sizes as the program has symbols.
        let bytes = unsafe { arena_bytes(sizes.as_ptr()) };
        let bytes = usize::try_from(bytes).unwrap_or(0);
        let mut arena = AlignedBytes::try_zeroed(bytes).expect("memory");
        // The arena's initial contents must not matter.
        arena.as_mut_slice().fill(0xa5);
        let zeros = results.iter().map(Literal::zeros);
        let mut outputs: Vec<Literal> = zeros.collect::<Result<_, _>>().expect("memory");
        let given: Vec<*const c_void> = inputs.iter().map(|i| i.bytes().as_ptr().cast()).collect();
        let gives: Vec<*mut c_void> = outputs
            .iter_mut()
            .map(|output| output.bytes_mut_ptr().cast())
            .collect();
        // SAFETY: the arrays have the program's types and sizes.
        let status = unsafe {
            let arena = arena.as_mut_slice().as_mut_ptr().cast();
            call(sizes.as_ptr(), given.as_ptr(), gives.as_ptr(), arena)
        };
        match status {
            0 => Ok(outputs),
            status => Err(status),
        }
    }
}
