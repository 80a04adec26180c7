//! Bindings to MPI's C functions, in a library that is found at run time.
//!
//! The standard defines functions, but no ABI. Open MPI's handles are pointers to objects of the
//! library, MPICH's are integers. Both are passed in a register, of which MPICH reads the lower
//! half, so a single declaration with a machine word for every handle serves both.
//! `MPI_Get_library_version` tells the two apart. Constants are those of Open MPI 4 and MPICH 4
//! (and 3), whose ABIs are stable.

use libloading::Library;
use std::ffi::{c_char, c_int, c_void};
use std::path::PathBuf;

/// A handle: a pointer, or an integer in the lower half of the word.
pub(super) type Handle = usize;

/// `MPI_THREAD_FUNNELED`: one thread makes all calls.
const FUNNELED: c_int = 1;
/// The maximum length of version and error texts.
const MAX_TEXT: usize = 8192;

/// The names under which the library is looked for, after `TEGULA_MPI`.
const NAMES: &[&str] = &[
    "libmpi.so.40",
    "libmpich.so.12",
    "libmpi.so.12",
    "libmpi.so",
];

macro_rules! functions {
    ($($field:ident $symbol:literal ($($ty:ty),*);)*) => {
        /// The functions of the library.
        struct Functions {
            $($field: unsafe extern "C" fn($($ty),*) -> c_int,)*
        }

        impl Functions {
            /// # Safety
            /// The library is an MPI library.
            unsafe fn load(library: &Library) -> Result<Self, libloading::Error> {
                Ok(Self {
                    // SAFETY: these are the signatures in the MPI standard, with words for handles.
                    $($field: unsafe { *library.get($symbol)? },)*
                })
            }
        }
    };
}

/// A function that exchanges bytes with all members of a communicator.
type WithAll = unsafe extern "C" fn(
    *const c_void,
    c_int,
    Handle,
    *mut c_void,
    c_int,
    Handle,
    Handle,
    *mut Handle,
) -> c_int;

functions! {
    init_thread b"MPI_Init_thread\0" (*mut c_int, *mut c_void, c_int, *mut c_int);
    finalize b"MPI_Finalize\0" ();
    abort b"MPI_Abort\0" (Handle, c_int);
    rank b"MPI_Comm_rank\0" (Handle, *mut c_int);
    size b"MPI_Comm_size\0" (Handle, *mut c_int);
    split b"MPI_Comm_split\0" (Handle, c_int, c_int, *mut Handle);
    duplicate b"MPI_Comm_dup\0" (Handle, *mut Handle);
    set_errhandler b"MPI_Comm_set_errhandler\0" (Handle, Handle);
    error_string b"MPI_Error_string\0" (c_int, *mut c_char, *mut c_int);
    isend b"MPI_Isend\0" (*const c_void, c_int, Handle, c_int, c_int, Handle, *mut Handle);
    irecv b"MPI_Irecv\0" (*mut c_void, c_int, Handle, c_int, c_int, Handle, *mut Handle);
    iallgather b"MPI_Iallgather\0" (*const c_void, c_int, Handle, *mut c_void, c_int, Handle, Handle, *mut Handle);
    ialltoall b"MPI_Ialltoall\0" (*const c_void, c_int, Handle, *mut c_void, c_int, Handle, Handle, *mut Handle);
    ibcast b"MPI_Ibcast\0" (*mut c_void, c_int, Handle, c_int, Handle, *mut Handle);
    test b"MPI_Test\0" (*mut Handle, *mut c_int, *mut c_void);
    cancel b"MPI_Cancel\0" (*mut Handle);
}

/// The constants that differ between implementations.
struct Constants {
    world: Handle,
    byte: Handle,
    errors_return: Handle,
    any_source: c_int,
    undefined: c_int,
    status_ignore: Handle,
}

/// A loaded MPI library.
pub(super) struct Mpi {
    functions: Functions,
    constants: Constants,
    /// Keeps the library loaded.
    _library: Library,
}

/// An operation in progress, which accesses its memory.
pub(super) struct Request(Handle);

impl Mpi {
    /// Loads the library with the name in `TEGULA_MPI`, or else with one of the names that Open MPI
    /// and MPICH use.
    ///
    /// # Errors
    /// The names that were tried without success.
    pub(super) fn load() -> Result<Self, String> {
        let stated = std::env::var_os("TEGULA_MPI").map(PathBuf::from);
        // The launcher is a hint, because both libraries may be installed.
        let hydra = std::env::var_os("PMI_RANK").is_some();
        let names: Vec<PathBuf> = match stated {
            Some(path) => vec![path],
            None if hydra => ["libmpich.so.12", "libmpi.so.12"].map(PathBuf::from).into(),
            None => NAMES.iter().map(PathBuf::from).collect(),
        };
        let mut last = String::new();
        for name in &names {
            // SAFETY: the library's initialisers are those of an MPI library, which any program may
            // load. Open MPI's own plug-ins look for its symbols among the global ones.
            let opened = unsafe {
                use libloading::os::unix;
                unix::Library::open(Some(name), unix::RTLD_NOW | unix::RTLD_GLOBAL)
            };
            match opened {
                Ok(library) => return Self::of(library.into()),
                Err(error) => last = error.to_string(),
            }
        }
        let names: Vec<_> = names
            .iter()
            .map(|name| name.display().to_string())
            .collect();
        Err(format!(
            "no MPI library was found ({}): install Open MPI or MPICH (Debian: `apt-get install \
             openmpi-bin` or `mpich`), or name its library in TEGULA_MPI; {last}",
            names.join(", ")
        ))
    }

    fn of(library: Library) -> Result<Self, String> {
        let failed = |error: libloading::Error| format!("the MPI library cannot be used: {error}");
        // SAFETY: `load` looked for an MPI library.
        let functions = unsafe { Functions::load(&library) }.map_err(failed)?;
        let version = version(&library).map_err(failed)?;
        let constants = if version.contains("Open MPI") {
            let object = |name: &[u8]| {
                // SAFETY: the symbol is an object of the library, which stays loaded. The handle is
                // its address, not its contents.
                unsafe {
                    let symbol = library.get::<*mut c_void>(name)?;
                    Ok(symbol.try_as_raw_ptr().map_or(0, |p| p as usize))
                }
            };
            Constants {
                world: object(b"ompi_mpi_comm_world\0").map_err(failed)?,
                byte: object(b"ompi_mpi_byte\0").map_err(failed)?,
                errors_return: object(b"ompi_mpi_errors_return\0").map_err(failed)?,
                any_source: -1,
                undefined: -32766,
                status_ignore: 0,
            }
        } else if version.contains("MPICH") || version.contains("Intel(R) MPI") {
            Constants {
                world: 0x4400_0000,
                byte: 0x4c00_010d,
                errors_return: 0x5400_0001,
                any_source: -2,
                undefined: -32766,
                status_ignore: 1,
            }
        } else {
            let first = version.lines().next().unwrap_or_default();
            return Err(format!(
                "the MPI library is `{first}`: expected Open MPI or MPICH, or one with MPICH's ABI"
            ));
        };
        Ok(Self {
            functions,
            constants,
            _library: library,
        })
    }

    /// The communicator of all ranks.
    pub(super) fn world(&self) -> Handle {
        self.constants.world
    }

    /// Joins the job. All calls must be made by the thread that calls this.
    pub(super) fn init(&self) -> Result<(), String> {
        let mut provided = 0;
        // SAFETY: MPI 2 and later allow null for both arguments.
        let code = unsafe {
            (self.functions.init_thread)(
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                FUNNELED,
                &raw mut provided,
            )
        };
        self.checked(code)?;
        // SAFETY: the handles are from the library.
        let code =
            unsafe { (self.functions.set_errhandler)(self.world(), self.constants.errors_return) };
        self.checked(code)
    }

    /// Leaves the job, together with all other ranks.
    pub(super) fn finalize(&self) -> Result<(), String> {
        // SAFETY: no operation is in progress.
        self.checked(unsafe { (self.functions.finalize)() })
    }

    /// Aborts the job.
    pub(super) fn abort(&self, code: i32) {
        // SAFETY: the handle is from the library.
        unsafe { (self.functions.abort)(self.world(), code) };
    }

    /// The rank of this process, and the number of ranks.
    pub(super) fn place(&self) -> Result<(usize, usize), String> {
        let (mut rank, mut size) = (0, 0);
        // SAFETY: the pointers are to live integers.
        self.checked(unsafe { (self.functions.rank)(self.world(), &raw mut rank) })?;
        // SAFETY: the pointers are to live integers.
        self.checked(unsafe { (self.functions.size)(self.world(), &raw mut size) })?;
        Ok((
            usize::try_from(rank).unwrap_or(0),
            usize::try_from(size).unwrap_or(1),
        ))
    }

    /// Splits all ranks into communicators: ranks with the same `colour` are in the same one, in
    /// the order of `key`. A rank without a colour is in none. All ranks must call this.
    pub(super) fn split(&self, colour: Option<usize>, key: usize) -> Result<Handle, String> {
        let number = |value: usize| c_int::try_from(value).unwrap_or(c_int::MAX);
        let colour = colour.map_or(self.constants.undefined, number);
        let mut made: Handle = 0;
        // SAFETY: the pointer is to a word, which is at least as large as the handle.
        let code =
            unsafe { (self.functions.split)(self.world(), colour, number(key), &raw mut made) };
        self.checked(code)?;
        Ok(made)
    }

    /// A second communicator of all ranks, whose messages are separate.
    pub(super) fn duplicate(&self) -> Result<Handle, String> {
        let mut made: Handle = 0;
        // SAFETY: the pointer is to a word, which is at least as large as the handle.
        let code = unsafe { (self.functions.duplicate)(self.world(), &raw mut made) };
        self.checked(code)?;
        Ok(made)
    }

    /// Begins to gather the bytes of all members, of the same length each, in the order of ranks.
    ///
    /// # Safety
    /// Both buffers keep their address and are not accessed until [`Self::is_done`]. `receive` has
    /// as many bytes for each member as `send`.
    pub(super) unsafe fn all_gather(
        &self,
        comm: Handle,
        send: &[u8],
        receive: &mut [u8],
    ) -> Result<Request, String> {
        let function = self.functions.iallgather;
        // SAFETY: the caller promises that both buffers keep their address and are not accessed
        // until the operation is done, and that `receive` has room for all members.
        unsafe { self.with_all(function, comm, send, length(send)?, receive) }
    }

    /// Begins to send piece `i` of `send` to member `i`; each piece has `each` bytes.
    ///
    /// # Safety
    /// As [`Self::all_gather`]; both buffers have `each` bytes for every member.
    pub(super) unsafe fn all_to_all(
        &self,
        comm: Handle,
        send: &[u8],
        each: usize,
        receive: &mut [u8],
    ) -> Result<Request, String> {
        let count = c_int::try_from(each).map_err(|_| too_long(each))?;
        let function = self.functions.ialltoall;
        // SAFETY: the caller promises that both buffers keep their address and are not accessed
        // until the operation is done, and that they have `each` bytes for every member.
        unsafe { self.with_all(function, comm, send, count, receive) }
    }

    /// Begins an exchange of `count` bytes with each member.
    ///
    /// # Safety
    /// As [`Self::all_gather`] or [`Self::all_to_all`], depending on the function.
    unsafe fn with_all(
        &self,
        function: WithAll,
        comm: Handle,
        send: &[u8],
        count: c_int,
        receive: &mut [u8],
    ) -> Result<Request, String> {
        let mut request = 0;
        let byte = self.constants.byte;
        let (send, receive) = (send.as_ptr().cast(), receive.as_mut_ptr().cast());
        // SAFETY: the caller promises that both buffers keep their address, have the size that the
        // function needs, and are not accessed until the operation is done.
        let code = unsafe {
            function(
                send,
                count,
                byte,
                receive,
                count,
                byte,
                comm,
                &raw mut request,
            )
        };
        self.checked(code)?;
        Ok(Request(request))
    }

    /// Begins a broadcast of the first member's bytes.
    ///
    /// # Safety
    /// As [`Self::all_gather`]; all members have the same number of bytes.
    pub(super) unsafe fn broadcast(
        &self,
        comm: Handle,
        bytes: &mut [u8],
    ) -> Result<Request, String> {
        let (count, mut request) = (length(bytes)?, 0);
        // SAFETY: the caller promises that the buffer keeps its address and is not accessed until
        // the operation is done.
        let code = unsafe {
            (self.functions.ibcast)(
                bytes.as_mut_ptr().cast(),
                count,
                self.constants.byte,
                0,
                comm,
                &raw mut request,
            )
        };
        self.checked(code)?;
        Ok(Request(request))
    }

    /// Begins to send bytes to a rank.
    ///
    /// # Safety
    /// The buffer keeps its address and contents until [`Self::is_done`].
    pub(super) unsafe fn send(
        &self,
        comm: Handle,
        to: usize,
        tag: c_int,
        bytes: &[u8],
    ) -> Result<Request, String> {
        let (count, mut request) = (length(bytes)?, 0);
        let to = c_int::try_from(to).unwrap_or(c_int::MAX);
        let byte = self.constants.byte;
        // SAFETY: the caller promises that the buffer keeps its address and contents until the
        // operation is done.
        let code = unsafe {
            (self.functions.isend)(
                bytes.as_ptr().cast(),
                count,
                byte,
                to,
                tag,
                comm,
                &raw mut request,
            )
        };
        self.checked(code)?;
        Ok(Request(request))
    }

    /// Begins to receive bytes from a rank, or from any.
    ///
    /// # Safety
    /// The buffer keeps its address and is not accessed until [`Self::is_done`].
    pub(super) unsafe fn receive(
        &self,
        comm: Handle,
        from: Option<usize>,
        tag: c_int,
        bytes: &mut [u8],
    ) -> Result<Request, String> {
        let (count, mut request) = (length(bytes)?, 0);
        let from = from.map_or(self.constants.any_source, |from| {
            c_int::try_from(from).unwrap_or(c_int::MAX)
        });
        let byte = self.constants.byte;
        // SAFETY: the caller promises that the buffer keeps its address and is not accessed until
        // the operation is done.
        let code = unsafe {
            (self.functions.irecv)(
                bytes.as_mut_ptr().cast(),
                count,
                byte,
                from,
                tag,
                comm,
                &raw mut request,
            )
        };
        self.checked(code)?;
        Ok(Request(request))
    }

    /// Whether an operation is done. If so, its buffers may be accessed again.
    pub(super) fn is_done(&self, request: &mut Request) -> Result<bool, String> {
        let mut flag = 0;
        let status = self.constants.status_ignore as *mut c_void;
        // SAFETY: the request is from the library, and `status` is its constant for a status that
        // is ignored.
        let code = unsafe { (self.functions.test)(&raw mut request.0, &raw mut flag, status) };
        self.checked(code)?;
        Ok(flag != 0)
    }

    /// Cancels a receive, which is then done soon.
    pub(super) fn cancel(&self, request: &mut Request) {
        // SAFETY: the request is from the library.
        unsafe { (self.functions.cancel)(&raw mut request.0) };
    }

    fn checked(&self, code: c_int) -> Result<(), String> {
        if code == 0 {
            return Ok(());
        }
        let mut text = vec![0_u8; MAX_TEXT];
        let mut length = 0;
        // SAFETY: the buffer has at least MPI_MAX_ERROR_STRING bytes.
        let known = unsafe {
            (self.functions.error_string)(code, text.as_mut_ptr().cast(), &raw mut length)
        };
        let length = usize::try_from(length).unwrap_or(0);
        match known {
            0 => Err(format!(
                "MPI: {}",
                String::from_utf8_lossy(text.get(..length).unwrap_or_default())
            )),
            _ => Err(format!("MPI error {code}")),
        }
    }
}

fn length(bytes: &[u8]) -> Result<c_int, String> {
    c_int::try_from(bytes.len()).map_err(|_| too_long(bytes.len()))
}

fn too_long(bytes: usize) -> String {
    format!("{bytes} bytes exceed the maximum size of an MPI message")
}

/// The library's version text, which is available before initialisation.
fn version(library: &Library) -> Result<String, libloading::Error> {
    type Version = unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int;
    // SAFETY: this is the signature in the MPI standard.
    let function = unsafe { library.get::<Version>(b"MPI_Get_library_version\0") }?;
    let mut text = vec![0_u8; MAX_TEXT];
    let mut length = 0;
    // SAFETY: the longest text has 8192 bytes in MPICH, and 256 in Open MPI.
    unsafe { function(text.as_mut_ptr().cast(), &raw mut length) };
    let length = usize::try_from(length).unwrap_or(0).min(MAX_TEXT);
    Ok(String::from_utf8_lossy(text.get(..length).unwrap_or_default()).into_owned())
}
