//! Clients of several processes: each has its own devices, and sees those of all.
//!
//! The front end starts the processes and gives each a store of keys and values that all of them
//! share (JAX: `jax.distributed.initialize`). Through it the clients exchange their addresses and
//! connect ([`tegula::network`]); the store is not used after that.

use crate::c_api::*;
use crate::error::Error;
use std::ffi::{c_char, c_int, c_void};
use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tegula::network::{Directory, Network, Place};

/// The time in which all processes must have made their clients.
const TIMEOUT: Duration = Duration::from_secs(300);

/// The number of clients of several processes that this process has made. All processes make
/// theirs in the same order, so this tells their keys in the store apart.
static CLIENTS: AtomicU64 = AtomicU64::new(0);

/// A store of keys and values of the front end.
pub(crate) struct Store {
    get: PJRT_KeyValueGetCallback,
    get_argument: *mut c_void,
    put: PJRT_KeyValuePutCallback,
    put_argument: *mut c_void,
}

impl Store {
    pub(crate) fn of(args: &PJRT_Client_Create_Args) -> Self {
        Self {
            get: args.kv_get_callback,
            get_argument: args.kv_get_user_arg,
            put: args.kv_put_callback,
            put_argument: args.kv_put_user_arg,
        }
    }
}

impl Directory for Store {
    fn put(&self, key: &str, value: &str) -> Result<(), String> {
        let put = self
            .put
            .ok_or("the front end provides no function to store")?;
        let mut callback: PJRT_CallbackError = Some(error);
        let mut args = PJRT_KeyValuePutCallback_Args {
            struct_size: PJRT_KeyValuePutCallback_Args::SIZE,
            extension_start: std::ptr::null_mut(),
            key: key.as_ptr().cast(),
            key_size: key.len(),
            value: value.as_ptr().cast(),
            value_size: value.len(),
            callback_error: &raw mut callback,
            user_arg: self.put_argument,
        };
        // SAFETY: the API requires a function that takes such a struct, which lives until it
        // returns.
        unsafe { of_c(put(&raw mut args)) }
    }

    fn get(&self, key: &str, timeout: Duration) -> Result<String, String> {
        let get = self
            .get
            .ok_or("the front end provides no function to look up")?;
        let mut callback: PJRT_CallbackError = Some(error);
        let mut args = PJRT_KeyValueGetCallback_Args {
            struct_size: PJRT_KeyValueGetCallback_Args::SIZE,
            extension_start: std::ptr::null_mut(),
            key: key.as_ptr().cast(),
            key_size: key.len(),
            timeout_in_ms: c_int::try_from(timeout.as_millis()).unwrap_or(c_int::MAX),
            callback_error: &raw mut callback,
            user_arg: self.get_argument,
            value: std::ptr::null_mut(),
            value_size: 0,
            value_deleter_callback: None,
        };
        // SAFETY: the API requires a function that takes such a struct, which lives until it
        // returns, and that writes the value, its size and a function to delete it.
        unsafe {
            of_c(get(&raw mut args))?;
            let bytes = crate::pointers::slice(args.value.cast::<u8>(), args.value_size);
            let value = String::from_utf8_lossy(bytes).into_owned();
            if let Some(delete) = args.value_deleter_callback {
                delete(args.value);
            }
            Ok(value)
        }
    }
}

/// Makes an error for a function of the front end.
///
/// # Safety
/// `message` points to `size` bytes, or is null.
unsafe extern "C" fn error(
    code: PJRT_Error_Code,
    message: *const c_char,
    size: usize,
) -> *mut PJRT_Error {
    // SAFETY: the caller promises that `message` points to `size` bytes, or is null.
    unsafe { Error::from_c(code, message, size) }.into_c()
}

/// Converts the error that a callback of the front end returned; null is success.
///
/// # Safety
/// The error was made by [`error`] and is not used again, or is null.
unsafe fn of_c(failed: *mut PJRT_Error) -> Result<(), String> {
    if failed.is_null() {
        return Ok(());
    }
    // SAFETY: the caller promises an error of ours that is not used again.
    unsafe {
        let (mut text, mut size) = (std::ptr::null(), 0);
        crate::error::message(failed, &raw mut text, &raw mut size);
        let bytes = crate::pointers::slice(text.cast::<u8>(), size);
        let message = String::from_utf8_lossy(bytes).into_owned();
        crate::error::destroy(failed);
        Err(message)
    }
}

/// The front end's options about processes.
#[derive(Default)]
pub(crate) struct Asked {
    pub(crate) process: i64,
    pub(crate) processes: i64,
    /// The address of this machine for the other processes.
    pub(crate) address: Option<String>,
    /// The address of the process that all others reach, with its port.
    pub(crate) coordinator: Option<String>,
}

impl Asked {
    /// Connects this process, which has some devices and runs a version of this software, to the
    /// others; [`None`] if there are no others.
    ///
    /// # Errors
    /// A process that is missing or cannot be reached.
    pub(crate) fn connect(
        &self,
        devices: i32,
        version: &str,
        store: &Store,
    ) -> Result<Option<Network>, Error> {
        if self.processes <= 1 {
            return Ok(None);
        }
        let number = |number: i64| usize::try_from(number).ok();
        let place = number(self.process).zip(number(self.processes));
        let place = place.filter(|(process, processes)| process < processes);
        let (process, processes) = place.ok_or_else(|| {
            let (process, processes) = (self.process, self.processes);
            Error::invalid(format!(
                "node_id: expected a number below {processes}, the number of nodes, got {process}"
            ))
        })?;
        let client = CLIENTS.fetch_add(1, Ordering::Relaxed);
        let place = Place {
            process,
            processes,
            devices: usize::try_from(devices).unwrap_or(0),
            address: self.own_address()?,
            version: version.to_owned(),
            key: format!("tegula/{client}"),
            timeout: TIMEOUT,
        };
        let network = Network::connect(&place, store);
        let network = network.map_err(|error| {
            Error::internal(format!(
                "{error}. Processes reach this one at {}; TEGULA_ADDRESS sets another address",
                place.address
            ))
        })?;
        Ok(Some(network))
    }

    /// The address of this machine for other processes: what the front end or `TEGULA_ADDRESS`
    /// says, or else the one from which this machine reaches the coordinator, or the loopback
    /// address.
    fn own_address(&self) -> Result<IpAddr, Error> {
        let stated = std::env::var("TEGULA_ADDRESS").ok();
        if let Some(stated) = stated.or_else(|| self.address.clone()) {
            return stated.trim().parse().map_err(|_| {
                let example = "such as 10.0.0.5";
                Error::invalid(format!(
                    "the address of this machine: expected an IP address {example}, got {stated:?}"
                ))
            });
        }
        let local = self.coordinator.as_ref().and_then(|coordinator| {
            // No packet is sent: this only looks up the route.
            let to = coordinator.to_socket_addrs().ok()?.next()?;
            let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            let socket = UdpSocket::bind(any).ok()?;
            socket.connect(to).ok()?;
            Some(socket.local_addr().ok()?.ip())
        });
        Ok(local.unwrap_or(Ipv4Addr::LOCALHOST.into()))
    }
}
