//! Tests of slices: links, checked by hand and by counting; programs, checked by hand; topologies.

mod links;
mod programs;
mod topology;
