//! NVRTC, the compiler from CUDA C++ to PTX and machine code. The library is loaded when it is
//! first needed.

use crate::error::Error;
use crate::libraries::{self, symbol};
use libloading::Library;
use std::ffi::{CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The output of NVRTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// PTX.
    Ptx,
    /// Machine code for one architecture.
    Cubin,
}

/// A GPU's architecture, by its compute capability: 90 means 9.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arch(pub u32);

impl Arch {
    /// The oldest architecture that generated programs run on: the first with instructions for NaN
    /// and `bf16`.
    pub const OLDEST: Self = Self(80);

    /// Parses a name such as `sm_90`; `None` if programs cannot be compiled for it.
    pub fn from_name(name: &str) -> Option<Self> {
        let digits = name.strip_prefix("sm_")?;
        let arch = Self(digits.parse().ok()?);
        (arch.0 >= Self::OLDEST.0).then_some(arch)
    }
}

/// Options that the results of programs depend on: every operation is rounded separately, as in the
/// reference evaluator.
const OPTIONS: &[&str] = &["--fmad=false", "--std=c++17"];

/// The loaded library.
pub struct Compiler {
    version: (i32, i32),
    functions: Functions,
    place: String,
    // Keeps the libraries loaded: `functions` points into their code. The library of built-in
    // functions was loaded before NVRTC.
    _libraries: Vec<Library>,
}

type Handle = *mut c_void;

struct Functions {
    create: unsafe extern "C" fn(
        *mut Handle,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> c_int,
    destroy: unsafe extern "C" fn(*mut Handle) -> c_int,
    compile: unsafe extern "C" fn(Handle, c_int, *const *const c_char) -> c_int,
    log_size: unsafe extern "C" fn(Handle, *mut usize) -> c_int,
    log: unsafe extern "C" fn(Handle, *mut c_char) -> c_int,
    ptx_size: unsafe extern "C" fn(Handle, *mut usize) -> c_int,
    ptx: unsafe extern "C" fn(Handle, *mut c_char) -> c_int,
    cubin_size: unsafe extern "C" fn(Handle, *mut usize) -> c_int,
    cubin: unsafe extern "C" fn(Handle, *mut c_char) -> c_int,
}

/// Names of the library, newest version first.
const NAMES: &[&str] = &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];

/// The compiler, loaded once per process.
///
/// # Errors
/// It is not installed; the error says how to get it.
pub fn compiler() -> Result<&'static Compiler, Error> {
    static COMPILER: OnceLock<Result<Compiler, String>> = OnceLock::new();
    let compiler = COMPILER.get_or_init(Compiler::load);
    compiler
        .as_ref()
        .map_err(|reason| Error::MissingLibrary(reason.clone()))
}

impl Compiler {
    fn load() -> Result<Self, String> {
        libraries::first(NAMES, Self::open).map_err(|reason| {
            let reason = reason.map_or_else(String::new, |reason| format!(" ({reason})"));
            format!(
                "the CUDA compiler library NVRTC (libnvrtc.so) is not found{reason}: \
                 `scripts/get-nvrtc target/nvrtc` installs it, TEGULA_CUDA_LIBS names a folder that has it"
            )
        })
    }

    fn open(path: &Path) -> Result<Self, String> {
        let mut libraries = Vec::new();
        // NVRTC looks up its library of built-in functions by name, and might not find it.
        if let Some(built_in) = path.parent().and_then(built_in_functions) {
            // SAFETY: loading the library runs only NVIDIA's own initialisers, which have no
            // preconditions.
            libraries.extend(unsafe { Library::new(built_in) }.ok());
        }
        // SAFETY: loading the library runs only NVIDIA's own initialisers, which have no
        // preconditions.
        let library = unsafe { Library::new(path) }.map_err(|e| e.to_string())?;
        // SAFETY: the names and types are those of nvrtc.h, which have not changed
        // since CUDA 11.1.
        let functions = unsafe { Functions::of(&library)? };
        // SAFETY: the type is that of nvrtc.h, and `major` and `minor` can be written.
        let version = unsafe {
            let ask = symbol::<unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int>(
                &library,
                "nvrtcVersion",
            )?;
            let (mut major, mut minor) = (0, 0);
            match ask(&raw mut major, &raw mut minor) {
                0 => (major, minor),
                code => return Err(format!("nvrtcVersion returns error code {code}")),
            }
        };
        libraries.push(library);
        Ok(Self {
            version,
            functions,
            place: path.display().to_string(),
            _libraries: libraries,
        })
    }

    /// Its major and minor version.
    pub fn version(&self) -> (i32, i32) {
        self.version
    }

    /// The path of the library.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The options of a compilation for an architecture.
    pub fn options(arch: Arch, form: Form) -> Vec<String> {
        let kind = if form == Form::Ptx { "compute" } else { "sm" };
        let mut options = vec![format!("--gpu-architecture={kind}_{}", arch.0)];
        options.extend(OPTIONS.iter().map(|&option| option.to_owned()));
        options
    }

    /// Compiles a source.
    ///
    /// # Errors
    /// The compiler's messages.
    pub fn compile(&self, source: &str, arch: Arch, form: Form) -> Result<Vec<u8>, Error> {
        let _span = tracing::info_span!("nvrtc", bytes = source.len()).entered();
        let text = CString::new(source).map_err(|e| Error::Bug(e.to_string()))?;
        let mut options = Self::options(arch, form);
        // NVRTC's own cache needs a home folder; ours is keyed by the program's text.
        options.push("-no-cache".to_owned());
        let options: Result<Vec<CString>, _> = options.into_iter().map(CString::new).collect();
        let options = options.map_err(|e| Error::Bug(e.to_string()))?;
        let program = Program::new(&self.functions, &text)?;
        program.compile(&options)?;
        program.result(form)
    }
}

/// The library of built-in functions next to NVRTC.
fn built_in_functions(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with("libnvrtc-builtins.so"))
        })
        .collect();
    found.sort();
    found.pop()
}

impl Functions {
    /// # Safety
    /// The library must be NVRTC.
    unsafe fn of(library: &Library) -> Result<Self, String> {
        // SAFETY: the library is NVRTC, as the caller promises, and the types are those of nvrtc.h.
        unsafe {
            Ok(Self {
                create: symbol(library, "nvrtcCreateProgram")?,
                destroy: symbol(library, "nvrtcDestroyProgram")?,
                compile: symbol(library, "nvrtcCompileProgram")?,
                log_size: symbol(library, "nvrtcGetProgramLogSize")?,
                log: symbol(library, "nvrtcGetProgramLog")?,
                ptx_size: symbol(library, "nvrtcGetPTXSize")?,
                ptx: symbol(library, "nvrtcGetPTX")?,
                cubin_size: symbol(library, "nvrtcGetCUBINSize")?,
                cubin: symbol(library, "nvrtcGetCUBIN")?,
            })
        }
    }
}

/// A program being compiled; destroyed on drop.
struct Program<'a> {
    functions: &'a Functions,
    handle: Handle,
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle belongs to this program, which nothing else destroys.
        unsafe { (self.functions.destroy)(&raw mut self.handle) };
    }
}

impl<'a> Program<'a> {
    fn new(functions: &'a Functions, text: &CString) -> Result<Self, Error> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the text and the name are zero-terminated, and there are no headers.
        let code = unsafe {
            (functions.create)(
                &raw mut handle,
                text.as_ptr(),
                c"program.cu".as_ptr(),
                0,
                std::ptr::null(),
                std::ptr::null(),
            )
        };
        match code {
            0 => Ok(Self { functions, handle }),
            code => Err(Error::Compiler(format!(
                "NVRTC cannot create a program: error code {code}"
            ))),
        }
    }

    fn compile(&self, options: &[CString]) -> Result<(), Error> {
        let pointers: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
        let count = c_int::try_from(pointers.len()).unwrap_or(0);
        // SAFETY: `pointers` holds `count` zero-terminated strings.
        let code = unsafe { (self.functions.compile)(self.handle, count, pointers.as_ptr()) };
        if code == 0 {
            return Ok(());
        }
        let log = self
            .bytes(self.functions.log_size, self.functions.log)
            .unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        Err(Error::Compiler(format!(
            "code {code}: {}",
            log.trim_end_matches('\0').trim_end()
        )))
    }

    fn result(&self, form: Form) -> Result<Vec<u8>, Error> {
        let (size, get) = match form {
            Form::Ptx => (self.functions.ptx_size, self.functions.ptx),
            Form::Cubin => (self.functions.cubin_size, self.functions.cubin),
        };
        let mut bytes = self.bytes(size, get).map_err(|code| {
            Error::Compiler(format!("NVRTC returns no {form:?}: error code {code}"))
        })?;
        if form == Form::Ptx && bytes.last() == Some(&0) {
            bytes.pop();
        }
        Ok(bytes)
    }

    fn bytes(
        &self,
        size: unsafe extern "C" fn(Handle, *mut usize) -> c_int,
        get: unsafe extern "C" fn(Handle, *mut c_char) -> c_int,
    ) -> Result<Vec<u8>, c_int> {
        let mut length = 0;
        // SAFETY: `length` can be written.
        let code = unsafe { size(self.handle, &raw mut length) };
        if code != 0 {
            return Err(code);
        }
        let mut bytes = vec![0u8; length];
        // SAFETY: NVRTC writes as many bytes as it has reported, and `bytes` has that length.
        match unsafe { get(self.handle, bytes.as_mut_ptr().cast()) } {
            0 => Ok(bytes),
            code => Err(code),
        }
    }
}
