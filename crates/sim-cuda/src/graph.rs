//! Graphs, which can only be created by captures.

use crate::driver::{Driver, Handle, Outcome, functions, put};
use crate::perform::enqueue;
use crate::status::{INVALID_HANDLE, INVALID_VALUE};
use crate::work::Work;

fn instantiate(driver: &mut Driver, executable: *mut Handle, graph: Handle) -> Outcome {
    let work = driver.graphs.get(&graph).ok_or(INVALID_HANDLE)?.clone();
    let handle = driver.handle();
    driver.executables.insert(handle, work);
    // SAFETY: the host passes a place for a handle.
    unsafe { put(executable, handle) }
}

functions! {
    call_within fn cuGraphInstantiateWithFlags(executable: *mut Handle, graph: Handle, _flags: u64) |driver| {
        instantiate(driver, executable, graph)
    }
    call_within fn cuGraphUpload(executable: Handle, _stream: Handle) |driver| {
        driver.executables.get(&executable).map(drop).ok_or(INVALID_HANDLE)
    }
    call_within fn cuGraphLaunch(executable: Handle, stream: Handle) |driver| {
        let work: Vec<Work> = driver.executables.get(&executable).ok_or(INVALID_HANDLE)?.clone();
        for piece in work {
            enqueue(driver, stream, piece)?;
            // The nodes after a failed kernel are not executed.
            if driver.failed.is_some() {
                break;
            }
        }
        Ok(())
    }
    call_within fn cuGraphGetNodes(graph: Handle, nodes: *mut usize, count: *mut usize) |driver| {
        let work = driver.graphs.get(&graph).ok_or(INVALID_HANDLE)?;
        if !nodes.is_null() {
            // Nodes have no handles, so they cannot be queried or changed.
            return crate::perform::unsupported();
        }
        if count.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the host passes a place for the count.
        unsafe { put(count, work.len()) }
    }
    call_within fn cuGraphExecDestroy(executable: Handle) |driver| {
        driver.executables.remove(&executable).map(drop).ok_or(INVALID_HANDLE)
    }
    call_within fn cuGraphDestroy(graph: Handle) |driver| {
        driver.graphs.remove(&graph).map(drop).ok_or(INVALID_HANDLE)
    }
}
