//! What a program is run on: a GPU, or the simulator that stands for one.

use crate::error::Error;
use crate::library::matrices::Matrices;

/// One launch of a function of the loaded program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch<'a> {
    /// The function, by its number in the program.
    pub function: usize,
    /// Its name, for errors.
    pub name: &'a str,
    /// Blocks, none of them 0.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Its parameters, of eight bytes each: addresses, then sizes.
    pub arguments: &'a [u64],
}

/// How a device's library does a product of matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Its own description of the algorithm.
    pub algorithm: [u64; 8],
    /// Bytes of memory that it needs meanwhile.
    pub workspace: u64,
}

/// One product of matrices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product<'a> {
    pub matrices: &'a Matrices,
    pub choice: Choice,
    /// Where A, B, what is added (D if nothing is), D, the bias and the workspace are; the
    /// last two are nowhere if there is none.
    pub addresses: [u64; 6],
}

/// A device with a program.
pub(crate) trait Device: Send + Sync {
    /// Begins a run. A program that was lost with the device is loaded again.
    fn open(&self) -> Result<Box<dyn Session + '_>, Error>;
}

/// A device with a program loaded. What is asked of it happens in order; what fails may
/// be reported by a later call, at the latest by one that reads.
pub(crate) trait Session {
    /// The context epoch of this session: what was allocated or recorded in another is
    /// gone.
    fn context_epoch(&self) -> u64;
    /// Memory of so many bytes, aligned to 256.
    fn allocate(&self, bytes: u64) -> Result<u64, Error>;
    /// Gives back memory that [`Self::allocate`] gave.
    fn free(&self, address: u64);
    /// Copies from the host; the bytes may change once it is done.
    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Error>;
    /// Copies to the host, when everything before is done.
    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), Error>;
    /// Copies between two places that do not overlap.
    fn copy(&self, from: u64, to: u64, bytes: u64) -> Result<(), Error>;
    /// Runs a function.
    fn launch(&self, launch: &Launch<'_>) -> Result<(), Error>;
    /// How the device's library does a product whose A, B, what is added, D and bias are
    /// aligned to so many bytes; none if it has none, or no library.
    fn choose(&self, matrices: &Matrices, alignment: [u32; 5]) -> Result<Option<Choice>, Error>;
    /// Does a product as was chosen in any context epoch.
    fn multiply(&self, product: &Product<'_>) -> Result<(), Error>;
    /// Waits for everything before.
    fn wait(&self) -> Result<(), Error>;
    /// Records launches and copies instead of doing them; none if the device does not
    /// record.
    fn record(&self, work: &mut dyn FnMut(&dyn Session) -> Result<(), Error>) -> Option<Recording>;
    /// Does what was recorded in this context epoch.
    fn replay(&self, recording: Recording) -> Result<(), Error>;
    /// Forgets what was recorded in this context epoch.
    fn forget(&self, recording: Recording);
}

/// What a device has recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recording(pub usize);

/// Device memory that is given back when it goes.
pub(crate) struct Allocation<'a> {
    session: &'a dyn Session,
    pub address: u64,
}

impl<'a> Allocation<'a> {
    /// # Errors
    /// The device has not so much.
    pub(crate) fn new(session: &'a dyn Session, bytes: u64) -> Result<Self, Error> {
        // An allocation of nothing has no address.
        let address = session.allocate(bytes.max(1))?;
        Ok(Self { session, address })
    }
}

impl Drop for Allocation<'_> {
    fn drop(&mut self) {
        self.session.free(self.address);
    }
}
