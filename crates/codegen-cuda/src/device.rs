//! The interface to a device that runs programs: a GPU, or the simulator in its place.

use crate::error::Error;
use crate::library::matrices::Matrices;

/// One launch of a function of the loaded program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch<'a> {
    /// The function's index in the program.
    pub function: usize,
    /// The function's name, for error messages.
    pub name: &'a str,
    /// The number of blocks along each dimension; none is 0.
    pub grid: [u32; 3],
    /// The number of threads per block along each dimension.
    pub block: [u32; 3],
    /// Its parameters, of eight bytes each: addresses, then sizes.
    pub arguments: &'a [u64],
}

/// The algorithm by which a device's library computes a matrix product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// The library's opaque description of the algorithm.
    pub algorithm: [u64; 8],
    /// Bytes of workspace that the algorithm needs.
    pub workspace: u64,
}

/// One product of matrices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product<'a> {
    pub matrices: &'a Matrices,
    pub choice: Choice,
    /// Addresses of A, B, the added matrix (D's address if there is none), D, the bias and
    /// the workspace; the last two are 0 if the product has none.
    pub addresses: [u64; 6],
}

/// A device with a program.
pub(crate) trait Device: Send + Sync {
    /// Begins a run. If the device lost its context since, the program is loaded again.
    fn open(&self) -> Result<Box<dyn Session + '_>, Error>;
}

/// A device with a program loaded. Operations execute in the order of the calls. An error
/// may be reported by a later call, at the latest by the next [`Self::read`] or
/// [`Self::wait`].
pub(crate) trait Session {
    /// The context epoch of this session. Memory and recordings of another epoch no longer
    /// exist.
    fn context_epoch(&self) -> u64;
    /// Allocates `bytes` bytes, aligned to 256.
    fn allocate(&self, bytes: u64) -> Result<u64, Error>;
    /// Frees memory that [`Self::allocate`] returned.
    fn free(&self, address: u64);
    /// Copies from the host. The caller may change `bytes` once this returns.
    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Error>;
    /// Waits for all earlier operations, then copies to the host.
    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), Error>;
    /// Copies within the device; the two ranges do not overlap.
    fn copy(&self, from: u64, to: u64, bytes: u64) -> Result<(), Error>;
    /// Launches a function.
    fn launch(&self, launch: &Launch<'_>) -> Result<(), Error>;
    /// Chooses the algorithm for a product; `alignment` has the alignment in bytes of A,
    /// B, the added matrix, D and the bias. `None` if the device has no library or the
    /// library does not support the product.
    fn choose(&self, matrices: &Matrices, alignment: [u32; 5]) -> Result<Option<Choice>, Error>;
    /// Computes a product. The choice may have been made in another context epoch.
    fn multiply(&self, product: &Product<'_>) -> Result<(), Error>;
    /// Waits for all earlier operations.
    fn wait(&self) -> Result<(), Error>;
    /// Records launches and copies instead of executing them; `None` if the device cannot
    /// record them.
    fn record(&self, work: &mut dyn FnMut(&dyn Session) -> Result<(), Error>) -> Option<Recording>;
    /// Executes a recording that was made in this context epoch.
    fn replay(&self, recording: Recording) -> Result<(), Error>;
    /// Frees a recording that was made in this context epoch.
    fn forget(&self, recording: Recording);
}

/// The index of a recording that a device has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recording(pub usize);

/// Device memory that is freed on drop.
pub(crate) struct Allocation<'a> {
    session: &'a dyn Session,
    pub address: u64,
}

impl<'a> Allocation<'a> {
    /// # Errors
    /// The device has too little free memory.
    pub(crate) fn new(session: &'a dyn Session, bytes: u64) -> Result<Self, Error> {
        // An allocation of 0 bytes would have no address.
        let address = session.allocate(bytes.max(1))?;
        Ok(Self { session, address })
    }
}

impl Drop for Allocation<'_> {
    fn drop(&mut self) {
        self.session.free(self.address);
    }
}
