//! MPI's C functions, from the library that is there at run time.
//!
//! The standard states functions, not an ABI: Open MPI's handles are pointers to objects of the library,
//! MPICH's are integers. Both are passed in a register, of which MPICH reads the lower half, so that one
//! declaration with a word in the place of every handle serves both. Which one it is says
//! `MPI_Get_library_version`; constants are those of Open MPI 4 and MPICH 4 (and 3), whose ABIs their
//! projects keep.

use libloading::Library;
use std::ffi::{c_char, c_int, c_void};
use std::path::PathBuf;

/// A handle: a pointer, or an integer in the lower half.
pub(super) type Handle = usize;

/// `MPI_THREAD_FUNNELED`: one thread makes all calls.
const FUNNELED: c_int = 1;
/// The longest version text and error text.
const MAX_TEXT: usize = 8192;

/// Names under which the library is looked for, after `TEGULA_MPI`.
const NAMES: &[&str] = &[
    "libmpi.so.40",
    "libmpich.so.12",
    "libmpi.so.12",
    "libmpi.so",
];

macro_rules! functions {
    ($($field:ident $symbol:literal ($($ty:ty),*);)*) => {
        /// The functions.
        struct Functions {
            $($field: unsafe extern "C" fn($($ty),*) -> c_int,)*
        }

        impl Functions {
            /// # Safety
            /// The library is one of MPI.
            unsafe fn load(library: &Library) -> Result<Self, libloading::Error> {
                Ok(Self {
                    // SAFETY: the MPI standard states these signatures, with words for handles.
                    $($field: unsafe { *library.get($symbol)? },)*
                })
            }
        }
    };
}

/// A function that exchanges bytes with every member of a communicator.
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

/// What differs from one implementation to the other.
struct Constants {
    world: Handle,
    byte: Handle,
    errors_return: Handle,
    any_source: c_int,
    undefined: c_int,
    status_ignore: Handle,
}

/// The library.
pub(super) struct Mpi {
    functions: Functions,
    constants: Constants,
    /// Keeps the code loaded.
    _library: Library,
}

/// An operation under way, with the memory that it reads and writes.
pub(super) struct Request(Handle);

impl Mpi {
    /// Loads the library: `TEGULA_MPI` names it, else the names that Open MPI and MPICH have.
    ///
    /// # Errors
    /// What was looked for and not found.
    pub(super) fn load() -> Result<Self, String> {
        let stated = std::env::var_os("TEGULA_MPI").map(PathBuf::from);
        // The launcher says whose it is: both libraries may be installed.
        let hydra = std::env::var_os("PMI_RANK").is_some();
        let names: Vec<PathBuf> = match stated {
            Some(path) => vec![path],
            None if hydra => ["libmpich.so.12", "libmpi.so.12"].map(PathBuf::from).into(),
            None => NAMES.iter().map(PathBuf::from).collect(),
        };
        let mut last = String::new();
        for name in &names {
            // SAFETY: its initialisers are those of an MPI library, which any program may load. Open
            // MPI's own plug-ins look for its symbols among the global ones.
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
        // SAFETY: `load` asked for an MPI library.
        let functions = unsafe { Functions::load(&library) }.map_err(failed)?;
        let version = version(&library).map_err(failed)?;
        let constants = if version.contains("Open MPI") {
            let object = |name: &[u8]| {
                // SAFETY: the symbol is an object of the library, which is kept loaded. Its own address
                // is the handle, not what is stored there.
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

    /// All ranks.
    pub(super) fn world(&self) -> Handle {
        self.constants.world
    }

    /// Joins the job. One thread calls this and everything else.
    pub(super) fn init(&self) -> Result<(), String> {
        let mut provided = 0;
        // SAFETY: null is allowed for both arguments since MPI 2.
        let code = unsafe {
            (self.functions.init_thread)(
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                FUNNELED,
                &raw mut provided,
            )
        };
        self.checked(code)?;
        // SAFETY: the handles are the library's.
        let code =
            unsafe { (self.functions.set_errhandler)(self.world(), self.constants.errors_return) };
        self.checked(code)
    }

    /// Leaves the job, with all others.
    pub(super) fn finalize(&self) -> Result<(), String> {
        // SAFETY: nothing is under way.
        self.checked(unsafe { (self.functions.finalize)() })
    }

    /// Ends the job.
    pub(super) fn abort(&self, code: i32) {
        // SAFETY: the handle is the library's.
        unsafe { (self.functions.abort)(self.world(), code) };
    }

    /// This process's number, and how many there are.
    pub(super) fn place(&self) -> Result<(usize, usize), String> {
        let (mut rank, mut size) = (0, 0);
        // SAFETY: the pointers are to live integers.
        self.checked(unsafe { (self.functions.rank)(self.world(), &raw mut rank) })?;
        // SAFETY: as above.
        self.checked(unsafe { (self.functions.size)(self.world(), &raw mut size) })?;
        Ok((
            usize::try_from(rank).unwrap_or(0),
            usize::try_from(size).unwrap_or(1),
        ))
    }

    /// A communicator of those who give the same `colour`, in the order of `key`; all ranks call this.
    /// Without a colour a rank is in none.
    pub(super) fn split(&self, colour: Option<usize>, key: usize) -> Result<Handle, String> {
        let number = |value: usize| c_int::try_from(value).unwrap_or(c_int::MAX);
        let colour = colour.map_or(self.constants.undefined, number);
        let mut made: Handle = 0;
        // SAFETY: the pointer is to a word, at least as large as the handle.
        let code =
            unsafe { (self.functions.split)(self.world(), colour, number(key), &raw mut made) };
        self.checked(code)?;
        Ok(made)
    }

    /// The same ranks once more, whose messages meet no others.
    pub(super) fn duplicate(&self) -> Result<Handle, String> {
        let mut made: Handle = 0;
        // SAFETY: as in `split`.
        let code = unsafe { (self.functions.duplicate)(self.world(), &raw mut made) };
        self.checked(code)?;
        Ok(made)
    }

    /// Everyone's bytes, of the same number each, by rank.
    ///
    /// # Safety
    /// Both pieces of memory stay where they are, and are touched by nobody, until [`Self::is_done`].
    /// `receive` has as many bytes for each member as `send`.
    pub(super) unsafe fn all_gather(
        &self,
        comm: Handle,
        send: &[u8],
        receive: &mut [u8],
    ) -> Result<Request, String> {
        let function = self.functions.iallgather;
        // SAFETY: the caller's promise.
        unsafe { self.with_all(function, comm, send, length(send)?, receive) }
    }

    /// Piece `i` of `send` goes to member `i`; pieces have `each` bytes.
    ///
    /// # Safety
    /// As [`Self::all_gather`]; both pieces of memory have `each` bytes for every member.
    pub(super) unsafe fn all_to_all(
        &self,
        comm: Handle,
        send: &[u8],
        each: usize,
        receive: &mut [u8],
    ) -> Result<Request, String> {
        let count = c_int::try_from(each).map_err(|_| too_long(each))?;
        let function = self.functions.ialltoall;
        // SAFETY: the caller's promise.
        unsafe { self.with_all(function, comm, send, count, receive) }
    }

    /// Begins an exchange of so many bytes with each member.
    ///
    /// # Safety
    /// As [`Self::all_gather`] or [`Self::all_to_all`], by which function it is.
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
        // SAFETY: the caller's promise.
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

    /// The first member's bytes go to all.
    ///
    /// # Safety
    /// As [`Self::all_gather`]; all members have as many bytes.
    pub(super) unsafe fn broadcast(
        &self,
        comm: Handle,
        bytes: &mut [u8],
    ) -> Result<Request, String> {
        let (count, mut request) = (length(bytes)?, 0);
        // SAFETY: the caller's promise.
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

    /// Bytes to one rank.
    ///
    /// # Safety
    /// The memory stays where it is, unchanged, until [`Self::is_done`].
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
        // SAFETY: the caller's promise.
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

    /// Bytes of one rank, or of any.
    ///
    /// # Safety
    /// The memory stays where it is, touched by nobody, until [`Self::is_done`].
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
        // SAFETY: the caller's promise.
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

    /// Whether an operation is over; then its memory is the caller's again.
    pub(super) fn is_done(&self, request: &mut Request) -> Result<bool, String> {
        let mut flag = 0;
        let status = self.constants.status_ignore as *mut c_void;
        // SAFETY: the request is one that the library gave; a status that is ignored is the constant
        // for that.
        let code = unsafe { (self.functions.test)(&raw mut request.0, &raw mut flag, status) };
        self.checked(code)?;
        Ok(flag != 0)
    }

    /// Gives a receive up; it is over soon.
    pub(super) fn cancel(&self, request: &mut Request) {
        // SAFETY: as `is_done`.
        unsafe { (self.functions.cancel)(&raw mut request.0) };
    }

    fn checked(&self, code: c_int) -> Result<(), String> {
        if code == 0 {
            return Ok(());
        }
        let mut text = vec![0_u8; MAX_TEXT];
        let mut length = 0;
        // SAFETY: the text has more than MPI_MAX_ERROR_STRING bytes.
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
    format!("{bytes} bytes are more than one message of MPI has")
}

/// What the library says that it is; it may be asked before anything else.
fn version(library: &Library) -> Result<String, libloading::Error> {
    type Version = unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int;
    // SAFETY: the MPI standard states this signature.
    let function = unsafe { library.get::<Version>(b"MPI_Get_library_version\0") }?;
    let mut text = vec![0_u8; MAX_TEXT];
    let mut length = 0;
    // SAFETY: MPICH's longest text has 8192 bytes, Open MPI's 256.
    unsafe { function(text.as_mut_ptr().cast(), &raw mut length) };
    let length = usize::try_from(length).unwrap_or(0).min(MAX_TEXT);
    Ok(String::from_utf8_lossy(text.get(..length).unwrap_or_default()).into_owned())
}
