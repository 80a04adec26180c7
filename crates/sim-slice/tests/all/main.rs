//! Tests of slices: links by hand and by counting, programs by hand, topologies.

mod links;
mod programs;
mod topology;
